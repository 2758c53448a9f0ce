//! Content negotiation: the `Accept` header, interpreted as an API server does.

use kube_protobuf::MEDIA_TYPE;

use crate::field_error::FieldError;
use crate::request::Query;
use crate::status::ApiError;

/// The supported media types.
const WRITTEN: &[&str] = &["application/json", "application/yaml", MEDIA_TYPE];
/// The additional media types of paths that can be watched.
const STREAMED: &[&str] = &[
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// What a path can respond with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether the response is a stream.
    pub streaming: bool,
    /// Whether the path can be watched.
    pub watchable: bool,
    /// Whether the kind has a protobuf schema. Metadata always has one.
    pub schema: bool,
}

impl Offer {
    /// A single object.
    pub fn object(schema: bool) -> Offer {
        Offer {
            streaming: false,
            watchable: false,
            schema,
        }
    }
}

/// The representation that the client requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A row of a `Table`.
    Table(IncludeObject),
}

/// What a row contains of its object besides the cells: the query parameter `includeObject`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// The value of the query parameter; `None` if it is unknown.
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`; cannot be streamed.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The negotiated representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The objects, their metadata or a table.
    pub form: Form,
    /// How they are written.
    pub encoding: Encoding,
}

impl Accepted {
    /// The first clause the server can serve, best quality first. No header means JSON.
    pub fn choose(accept: Option<&str>, offer: Offer) -> Result<Accepted, ApiError> {
        let json = Accepted {
            form: Form::Object,
            encoding: Encoding::Json,
        };
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Ok(json);
        };
        if !accept.split(',').any(is_known) {
            let streamed = if offer.watchable { STREAMED } else { &[] };
            return Err(ApiError::no_representation(&[WRITTEN, streamed].concat()));
        }
        let mut clauses: Vec<(f32, Accepted)> = accept.split(',').filter_map(clause).collect();
        clauses.retain(|(quality, accepted)| {
            let can_write = match (accepted.encoding, accepted.form) {
                (Encoding::Json | Encoding::Yaml, _) | (Encoding::Protobuf, Form::Metadata) => true,
                (Encoding::Protobuf, Form::Object) => offer.schema,
                (Encoding::Protobuf, Form::Table(_)) => false,
            };
            *quality > 0.0 && can_write
        });
        // Stable, so that the first of several equal clauses wins.
        clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        match clauses.first() {
            // YAML cannot be streamed, which is noticed after it was chosen.
            Some((_, accepted)) if offer.streaming && accepted.encoding == Encoding::Yaml => {
                Err(ApiError::not_acceptable(STREAMED))
            }
            Some((_, accepted)) => Ok(*accepted),
            None => Err(ApiError::not_acceptable(WRITTEN)),
        }
    }
}

impl Accepted {
    /// The value of `includeObject`.
    pub fn including(mut self, query: &Query) -> Result<Accepted, ApiError> {
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

/// Whether the media type of a clause is supported at all.
fn is_known(clause: &str) -> bool {
    let media_type = clause
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    matches!(media_type.as_str(), "application/*" | "*/*") || WRITTEN.contains(&media_type.as_str())
}

fn clause(clause: &str) -> Option<(f32, Accepted)> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/json" | "application/*" | "*/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        MEDIA_TYPE => Encoding::Protobuf,
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
    (form == Form::Object || known).then_some((quality, Accepted { form, encoding }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Option<Form> {
        Accepted::choose(Some(accept), Offer::object(true))
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
        assert_eq!(form("application/vnd.kubernetes.protobuf;as=Table;v=v1"), None);
        assert_eq!(form("application/cbor"), None);
        assert_eq!(form("application/json;as=Soup;v=v1;g=meta.k8s.io"), None);
        assert_eq!(
            form("application/json;q=0.1,application/json;as=PartialObjectMetadata;v=v1"),
            Some(Form::Metadata)
        );
    }

    #[test]
    fn a_stream_is_never_yaml() {
        let stream = Offer {
            streaming: true,
            watchable: true,
            schema: true,
        };
        let refused = |accept| {
            Accepted::choose(Some(accept), stream)
                .unwrap_err()
                .message()
                .to_owned()
        };
        let streams = "only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(refused("application/yaml"), streams);
        assert_eq!(refused("application/yaml, application/json"), streams);
        assert!(Accepted::choose(Some("application/yaml;q=0.5, application/json"), stream).is_ok());
        assert_eq!(
            refused("application/json;as=Soup;v=v1;g=meta.k8s.io"),
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf"
        );
        let list = Accepted::choose(Some("application/yaml"), Offer::object(true));
        assert!(list.is_ok_and(|accepted| accepted.encoding == Encoding::Yaml));
    }

    #[test]
    fn protobuf_requires_a_schema() {
        let encoding = |accept: &str, schema: bool| {
            Accepted::choose(Some(accept), Offer::object(schema))
                .ok()
                .map(|accepted| accepted.encoding)
        };
        let both = "application/vnd.kubernetes.protobuf,application/json";

        assert_eq!(encoding(both, true), Some(Encoding::Protobuf));
        assert_eq!(encoding(both, false), Some(Encoding::Json));
        assert_eq!(encoding("application/vnd.kubernetes.protobuf", false), None);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(encoding(metadata, false), Some(Encoding::Protobuf));
        // Unknown parameters are ignored, as a real server does.
        let drop = "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,application/json";
        assert_eq!(encoding(drop, true), Some(Encoding::Protobuf));
    }
}
