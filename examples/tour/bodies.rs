//! The metadata of all Secrets in a cache, and the values of those that are needed.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube_informers::Informer;
use kube_informers::bodies::Bodies;
use kube_testserver::TestServer;
use kube_testserver::builders::secret;

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    for number in 0..100 {
        let mut secret = secret("shop", &format!("token-{number}"));
        secret.data = Some([("token".to_owned(), ByteString(vec![b'x'; 1000]))].into());
        server.create(secret);
    }

    let metadata = Informer::<PartialObjectMeta<Secret>>::all(server.client()).start();
    let secrets = Bodies::<Secret>::new(server.client(), &metadata)?;
    metadata.synced().await?;

    let token = secrets.fetch("shop/token-7").await?;
    secrets.fetch("shop/token-7").await?; // from memory: the metadata has not changed
    let (objects, bytes) = secrets.held();
    println!(
        "{} Secrets known, {objects} of them held in {bytes} bytes",
        metadata.store().len()
    );

    assert_eq!(token.data.as_ref().map(|data| data["token"].0.len()), Some(1000));
    assert_eq!((metadata.store().len(), objects), (100, 1));
    metadata.shutdown().await;
    Ok(())
}
