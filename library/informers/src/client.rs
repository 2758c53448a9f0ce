//! A kube client configured for informers.

/// Creates a client for informers and for your own requests, with one setting disabled that interferes with informers:
/// with `read_timeout`, kube ends every quiet watch. Informers have their own deadlines.
///
/// All other settings (credentials, TLS, proxies, the connect timeout) are unchanged. In particular kube retries your own
/// requests when the server is overloaded (`default_retry`); the requests of informers are exempt, because informers have
/// their own back-off and report it. Clients created otherwise work too, see [`ListWatch`](crate::ListWatch).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube_informers::client(kube::Config::infer().await?)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The configuration is invalid, for example because of a bad certificate, or TLS without a TLS library.
///
/// # Panics
///
/// Panics outside of a tokio runtime, like all kube clients.
pub fn client(config: kube::Config) -> Result<kube::Client, kube::Error> {
    kube::Client::try_from(adapted(config))
}

fn adapted(mut config: kube::Config) -> kube::Config {
    config.read_timeout = None;
    config
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config() -> kube::Config {
        let mut config = kube::Config::new(http::Uri::from_static("http://localhost:1"));
        config.read_timeout = Some(Duration::from_secs(5));
        config
    }

    #[test]
    fn the_read_timeout_is_disabled_and_nothing_else() {
        let before = config();
        let after = adapted(config());

        assert!(before.default_retry && after.default_retry);
        assert_eq!(after.read_timeout, None);
        assert_eq!(after.connect_timeout, before.connect_timeout);
        assert_eq!(after.cluster_url, before.cluster_url);
    }

    #[tokio::test]
    async fn an_invalid_configuration_is_an_error() {
        assert!(client(config()).is_ok());

        let mut unusable = config();
        unusable.proxy_url = Some(http::Uri::from_static("gopher://localhost"));
        assert!(client(unusable).is_err());
    }
}
