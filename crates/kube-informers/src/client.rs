//! A kube client fit for informers.

/// Makes a client of a configuration, with the two settings changed that informers cannot live with.
///
/// - `default_retry` off: a request that was refused is not repeated in secret for minutes. Informers back
///   off themselves, show that they do, and respect `Retry-After`.
/// - `read_timeout` off: it would cut every watch on which nothing happens. Informers have deadlines of their
///   own for that.
///
/// Everything else (credentials, TLS, proxies, the timeout for connecting) stays as it is. This is the
/// recommended way; a client made otherwise works too, see [`ListWatch`](crate::ListWatch).
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
/// The configuration cannot be used: bad certificates, say, or TLS without a TLS library.
///
/// # Panics
///
/// Outside of a tokio runtime, as all of kube's clients.
pub fn client(config: kube::Config) -> Result<kube::Client, kube::Error> {
    kube::Client::try_from(fit(config))
}

fn fit(mut config: kube::Config) -> kube::Config {
    config.default_retry = false;
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
    fn retries_and_the_read_timeout_are_off_and_the_rest_stays() {
        let before = config();
        let after = fit(config());

        assert!(before.default_retry && !after.default_retry);
        assert_eq!(after.read_timeout, None);
        assert_eq!(after.connect_timeout, before.connect_timeout);
        assert_eq!(after.cluster_url, before.cluster_url);
    }

    #[tokio::test]
    async fn a_configuration_becomes_a_client_or_an_error() {
        assert!(client(config()).is_ok());

        let mut unusable = config();
        unusable.proxy_url = Some(http::Uri::from_static("gopher://localhost"));
        assert!(client(unusable).is_err());
    }
}
