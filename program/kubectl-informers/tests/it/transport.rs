//! Endpoints that no client can use. The message names the innermost cause and the usual fix, in discovery and in the first
//! list.

use kube_hostile::Endpoint;

use crate::program::Home;

#[tokio::test(flavor = "multi_thread")]
async fn transport_errors_name_the_innermost_cause_and_the_usual_fix() {
    for endpoint in Endpoint::all() {
        for discovered in [false, true] {
            let name = format!("{}, discovered: {discovered}", endpoint.name);
            let open = endpoint.open().await.unwrap();
            let home = Home::new();
            let url = open.url();
            let mut arguments = vec![
                "watch".to_owned(),
                "pods".to_owned(),
                "-s".to_owned(),
                url.clone(),
            ];
            if let Some(authority) = open.authority_pem() {
                let file = home.write("authority.pem", &authority);
                arguments.extend(["--certificate-authority".to_owned(), file.display().to_string()]);
            }
            if discovered {
                home.cache_discovery(&url);
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();

            let ended = home.run(&arguments).await;

            println!("{name}: {}", ended.err);
            assert_eq!(ended.code, Some(1), "{name}: {}", ended.err);
            let text = ended.err.to_lowercase();
            assert!(
                endpoint.causes.iter().any(|cause| text.contains(cause)),
                "{name}: {text}"
            );
            assert!(ended.err.contains(endpoint.fix), "{name}: {}", ended.err);
            assert_eq!(ended.out, "", "{name}");
        }
    }
}
