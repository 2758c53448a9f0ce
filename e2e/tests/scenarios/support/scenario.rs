//! Turns a scenario into three tests.

use kube_informers::{Encoding, InformerBuilder, Object};

tokio::task_local! {
    /// The encoding that the informers of this scenario request.
    pub static ENCODING: Encoding;
}

/// The builder with the encoding of the scenario.
pub fn encoded<K: Object>(builder: InformerBuilder<K>) -> InformerBuilder<K> {
    match ENCODING.try_with(|encoding| *encoding) {
        Ok(encoding) => builder
            .encoding(encoding)
            .expect("the informers of the scenarios can choose"),
        Err(_) => builder,
    }
}

/// The result of a scenario.
pub type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Makes three tests of each function of a server, with the setup of the server: `name::on_the_embedded_server` and
/// `name::on_the_real_server` with the default encodings (protobuf for built-in kinds), and
/// `name::on_the_embedded_server_as_json`.
macro_rules! scenarios {
    ($($name:ident: $setup:expr;)*) => {
        $(
            mod $name {
                use kube_informers_e2e::{Server, Setup};
                use $crate::support::Outcome;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_server() -> Outcome {
                    super::$name(&Server::embedded(&$setup).await?).await
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_server_as_json() -> Outcome {
                    let server = Server::embedded(&$setup).await?;
                    let json = kube_informers::Encoding::Json;
                    $crate::support::ENCODING.scope(json, super::$name(&server)).await
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs a real API server: e2e/run starts one"]
                async fn on_the_real_server() -> Outcome {
                    match Server::real(&$setup).await {
                        Ok(server) => super::$name(&server).await,
                        Err(error) => Ok(error.skip_loudly(concat!(module_path!(), "::on_the_real_server"))?),
                    }
                }
            }
        )*
    };
}
pub(crate) use scenarios;
