//! Content negotiation: the `Accept` header, interpreted as an API server does.

use crate::admission::field_error::FieldError;
use crate::encode::Form;
use crate::encode::table::IncludeObject;
use crate::transport::request::Query;
use crate::transport::status::ApiError;

/// The supported media types.
pub(crate) const WRITTEN: &[&str] = &["application/json", "application/yaml"];

/// The negotiated representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) yaml: bool,
}

impl Accepted {
    /// The first clause the server can serve, best quality first. No header means JSON.
    pub(crate) fn choose(accept: Option<&str>, streaming: bool) -> Result<Accepted, ApiError> {
        let json = Accepted {
            form: Form::Object,
            yaml: false,
        };
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Ok(json);
        };
        let mut clauses: Vec<(f32, Accepted)> = accept.split(',').filter_map(clause).collect();
        clauses.retain(|(quality, accepted)| *quality > 0.0 && !(streaming && accepted.yaml));
        // Stable, so that the first of several equal clauses wins.
        clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        clauses
            .first()
            .map(|(_, accepted)| *accepted)
            .ok_or_else(|| ApiError::not_acceptable(WRITTEN))
    }
}

impl Accepted {
    /// The value of `includeObject`.
    pub(crate) fn including(mut self, query: &Query) -> Result<Accepted, ApiError> {
        if let Form::Table(include) = &mut self.form {
            let asked = query.get("includeObject").unwrap_or_default();
            *include = IncludeObject::parse(asked).ok_or_else(|| {
                let must = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid("includeObject", asked, must);
                ApiError::bad_request(format!("Unable to convert to Table as requested: {error}"))
            })?;
        }
        Ok(self)
    }
}

fn clause(clause: &str) -> Option<(f32, Accepted)> {
    let mut parts = clause.split(';').map(str::trim);
    let yaml = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/json" | "application/*" | "*/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut quality, mut form, mut group_version) = (1.0, Form::Object, (None, None));
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => quality = value.parse().unwrap_or(1.0),
            Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => form = Form::Metadata,
            Some(("as", "Table")) => form = Form::Table(IncludeObject::default()),
            Some(("as", _)) => return None,
            Some(("g", value)) => group_version.0 = Some(value),
            Some(("v", value)) => group_version.1 = Some(value),
            _ => {}
        }
    }
    let known = matches!(group_version, (None | Some("meta.k8s.io"), None | Some("v1")));
    (form == Form::Object || known).then_some((quality, Accepted { form, yaml }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Option<Form> {
        Accepted::choose(Some(accept), false)
            .ok()
            .map(|accepted| accepted.form)
    }

    #[test]
    fn best_supported_clause_wins() {
        assert_eq!(form(""), Some(Form::Object));
        assert_eq!(form("*/*"), Some(Form::Object));
        assert_eq!(
            form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Form::Metadata)
        );
        assert_eq!(
            form("application/vnd.kubernetes.protobuf, application/json"),
            Some(Form::Object)
        );
        assert_eq!(form("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(form("application/json;as=Soup;v=v1;g=meta.k8s.io"), None);
        assert_eq!(
            form("application/json;q=0.1,application/json;as=PartialObjectMetadata;v=v1"),
            Some(Form::Metadata)
        );
    }

    #[test]
    fn watch_is_never_yaml() {
        assert!(Accepted::choose(Some("application/yaml"), true).is_err());
        assert!(Accepted::choose(Some("application/yaml"), false).is_ok_and(|accepted| accepted.yaml));
    }
}
