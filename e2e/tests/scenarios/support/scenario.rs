//! From a function to two tests.

/// How a scenario ends: well, or with whatever was in the way.
pub type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Makes two tests of an async function over a server: `name::on_the_embedded_server`, `name::on_the_real_server`.
macro_rules! scenario {
    ($(#[$doc:meta])* $name:ident($server:ident: $setup:expr) $body:block) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn scenario($server: &kube_informers_e2e::Server) -> $crate::support::Outcome $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_embedded_server() -> $crate::support::Outcome {
                scenario(&kube_informers_e2e::Server::embedded(&$setup).await?).await
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_real_server() -> $crate::support::Outcome {
                match kube_informers_e2e::Server::real(&$setup).await {
                    Ok(server) => scenario(&server).await,
                    Err(error) => Ok(error.skip_loudly(concat!(module_path!(), " on the real server"))?),
                }
            }
        }
    };
}
pub(crate) use scenario;
