//! Turns a scenario into four tests.

/// The result of a scenario.
pub type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Makes four tests of each function of a server, with the setup of the server: `name::on_the_embedded_server` and
/// `name::on_the_real_server`, and the same `_in_json`. Without the suffix, informers choose the encoding, which is
/// protobuf for built-in kinds.
macro_rules! scenarios {
    ($($name:ident: $setup:expr;)*) => {
        $(
            mod $name {
                use kube_informers_e2e::{Server, Setup};
                use $crate::scenarios::support::Outcome;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_server() -> Outcome {
                    super::$name(&Server::embedded(&$setup).await?).await
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_server_in_json() -> Outcome {
                    super::$name(&Server::embedded(&$setup.json()).await?).await
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs a real API server: verify/scenarios/run starts one"]
                async fn on_the_real_server() -> Outcome {
                    real($setup, concat!(module_path!(), "::on_the_real_server")).await
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs a real API server: verify/scenarios/run starts one"]
                async fn on_the_real_server_in_json() -> Outcome {
                    real($setup.json(), concat!(module_path!(), "::on_the_real_server_in_json")).await
                }

                async fn real(setup: Setup, test: &str) -> Outcome {
                    match Server::real(&setup).await {
                        Ok(server) => super::$name(&server).await,
                        Err(error) => Ok(error.skip_loudly(test)?),
                    }
                }
            }
        )*
    };
}
pub(crate) use scenarios;
