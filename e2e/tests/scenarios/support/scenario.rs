//! Turns a scenario into two tests.

/// The result of a scenario.
pub type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Makes two tests of each function of a server, `name::on_the_embedded_server` and `name::on_the_real_server`, with
/// the setup of the server.
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
