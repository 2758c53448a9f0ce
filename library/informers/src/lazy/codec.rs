//! Objects that keep their encoded bytes: packs them on arrival and decodes them on access.

use std::borrow::Cow;
use std::sync::Arc;

use kube_protobuf::raw;
use kube_protobuf::schema::Message;
use kube_protobuf::{Error, ErrorKind};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{Context, Front, Lazy, Packed, SourceContext};
use crate::codec::{
    Codec, DecodeOptions, Encoded, Expected, FromWire, LazyCounters, LazyOptions, NOT_PROTOBUF, RawObject,
    Schema, Validate, decode, explain,
};
use crate::object::Object;

impl<K: Object + DeserializeOwned> FromWire for Lazy<K> {
    fn codec(options: LazyOptions) -> Codec<Self> {
        codec(options)
    }
}

fn codec<K: Object + DeserializeOwned>(options: LazyOptions) -> Codec<Lazy<K>> {
    let counters = Arc::<LazyCounters>::default();
    let contexts = Arc::new(Contexts {
        shared: Arc::new(SourceContext::new(options, counters.clone())),
        last: Mutex::new(None),
        validate: options.validate,
    });
    let for_protobuf = contexts.clone();
    let json = Arc::new(move |raw: &RawObject<'_>, options: DecodeOptions<'_>| {
        let bytes = match &raw.skim.managed_fields {
            Some(range) if options.drop_managed_fields => Cow::Owned(without(raw.bytes, range.clone())),
            _ => Cow::Borrowed(raw.bytes),
        };
        let packed = Packed::from_json(&bytes).map_err(|error| {
            // A document that decodes as an object with metadata would have been accepted.
            explain::<Front>(&bytes, &error)
        })?;
        contexts.hold(packed, None, raw, options.expected)
    });
    let protobuf = Arc::new(move |raw: &RawObject<'_>, options: DecodeOptions<'_>| {
        let Some(Schema { message, .. }) = raw.schema else {
            return Err(NOT_PROTOBUF.to_owned());
        };
        let packed = pack_protobuf(message, raw.bytes, options.drop_managed_fields)
            .map_err(|error| error.to_string())?;
        for_protobuf.hold(packed, Some(message), raw, options.expected)
    });
    Codec::of_encoded(json, protobuf, options, counters)
}

fn without(bytes: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
    let (head, tail) = (bytes.get(..range.start), bytes.get(range.end..));
    [head.unwrap_or_default(), tail.unwrap_or_default()].concat()
}

fn pack_protobuf(message: &'static Message, bytes: &[u8], cut: bool) -> Result<Packed, Error> {
    match cut_and_pack(bytes, cut) {
        // Metadata in several pieces, which no API server sends. The functions on bytes need it in one.
        Err(error) if error.kind() == ErrorKind::NotCanonical => {
            cut_and_pack(&raw::canonical(message, bytes)?, cut)
        }
        result => result,
    }
}

fn cut_and_pack(bytes: &[u8], cut: bool) -> Result<Packed, Error> {
    match cut {
        true => Packed::from_protobuf(raw::without_managed_fields(bytes)?),
        false => Packed::from_protobuf(Cow::Borrowed(bytes)),
    }
}

/// Creates the objects of one source.
struct Contexts<K> {
    shared: Arc<SourceContext<K>>,
    /// That of the last object. A source whose resource changes its version has another one from then on.
    last: Mutex<Option<Arc<Context<K>>>>,
    validate: Validate,
}

impl<K: Object + DeserializeOwned> Contexts<K> {
    fn hold(
        &self,
        packed: Packed,
        message: Option<&'static Message>,
        raw: &RawObject<'_>,
        expected: &Expected,
    ) -> Result<Lazy<K>, String> {
        let context = self.context(message, raw, expected);
        if self.validate == Validate::OnArrival {
            decode::<K>(Encoded {
                bytes: &packed.body(),
                message,
                expected: &context.kind,
            })?;
        }
        Ok(Lazy::new(packed, context))
    }

    fn context(
        &self,
        message: Option<&'static Message>,
        raw: &RawObject<'_>,
        expected: &Expected,
    ) -> Arc<Context<K>> {
        let api_version = raw.skim.api_version.as_deref().unwrap_or(&expected.api_version);
        let kind = raw.skim.kind.as_deref().unwrap_or(&expected.kind);
        let mut last = self.last.lock();
        match &*last {
            Some(context) if context.is_for(message, api_version, kind) => context.clone(),
            _ => {
                let kind = Expected {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    metadata_only: expected.metadata_only,
                };
                let context = Arc::new(Context::new(kind, message, self.shared.clone()));
                *last = Some(context.clone());
                context
            }
        }
    }
}
