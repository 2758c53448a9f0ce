//! The schema table: the messages of every built-in kind, with what decides how their JSON looks.
//!
//! The table is generated from the Go types of Kubernetes 1.33 to 1.37. It is a set of statics that refer to each
//! other, so that nothing is parsed or built at run time.

#[rustfmt::skip]
#[allow(non_upper_case_globals)]
mod table;

/// Whether a field is single or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// The table has no field of this number.
    None,
    /// A single value.
    Single,
    /// A repeated field.
    List,
    /// A repeated field of entries with a string key (1) and a value (2).
    Map,
    /// A single message whose fields belong to the message around it in JSON.
    Embedded,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A string.
    String,
    /// Bytes; base64 in JSON.
    Bytes,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating point number.
    Double,
    /// `meta/v1.Time`: a message of seconds; RFC 3339 in JSON.
    Time,
    /// `meta/v1.MicroTime`: a message of seconds and nanoseconds; RFC 3339 with six decimals in JSON.
    MicroTime,
    /// `meta/v1.Duration`: a message of nanoseconds; Go's notation in JSON.
    Duration,
    /// `resource.Quantity`: a message of a string; a string in JSON.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `runtime.RawExtension`: a message of bytes that are JSON or CBOR.
    RawExtension,
    /// `meta/v1.FieldsV1`: a message of bytes that are JSON or CBOR.
    FieldsV1,
    /// `apiextensions/v1.JSON`: a message of bytes that are JSON.
    Json,
    /// A message of repeated strings; a list in JSON.
    Strings,
    /// `apiextensions/v1.JSONSchemaPropsOrBool`.
    SchemaOrBool,
    /// `apiextensions/v1.JSONSchemaPropsOrArray`.
    SchemaOrArray,
    /// `apiextensions/v1.JSONSchemaPropsOrStringArray`.
    SchemaOrStrings,
    /// A message of the table.
    Message,
}

/// A field of a message.
#[derive(Debug)]
pub struct FieldSchema {
    name: &'static str,
    message: &'static Message,
    shape: Shape,
    kind: Kind,
    flags: u16,
}

/// A zero on the wire is printed.
const KEEP: u16 = 1;
/// Printed even if it is absent from the wire.
const ALWAYS: u16 = 2;
/// Printed as `null` if it is absent from the wire; else as zero.
const NULL: u16 = 4;
/// A zero time is left out.
const OMIT_ZERO: u16 = 8;
/// Go has a pointer: absent and zero differ.
const POINTER: u16 = 16;
/// `managedFields` of the metadata.
const MANAGED: u16 = 32;
/// Shifts the number of the field that identifies an element of a list.
const KEY: u16 = 256;

// The usual combinations, as the table names them.
const OPTIONAL: u16 = 0;
const REQUIRED: u16 = KEEP | ALWAYS;
const P: u16 = KEEP | NULL | POINTER;
const REQUIRED_POINTER: u16 = P | ALWAYS;
const REQUIRED_BYTES: u16 = REQUIRED | NULL;
const L: u16 = NULL;
const REQUIRED_LIST: u16 = NULL | ALWAYS;

impl FieldSchema {
    /// The name in JSON; empty for an embedded message.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it is single or repeated.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The type of the value, or of the elements.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message of the value, if it is one of the table.
    pub fn message(&self) -> Option<&'static Message> {
        (!self.message.fields.is_empty()).then_some(self.message)
    }

    /// The number of the field that identifies an element of a list, such as `type` of a condition.
    pub(crate) fn key(&self) -> Option<u32> {
        Some(u32::from(self.flags / KEY)).filter(|&number| number > 0)
    }

    /// The message of the table; one without fields if there is none.
    #[inline]
    pub(crate) fn inner(&self) -> &'static Message {
        self.message
    }

    #[inline]
    pub(crate) fn keeps_zero(&self) -> bool {
        self.flags & KEEP != 0
    }

    pub(crate) fn is_null_if_absent(&self) -> bool {
        self.flags & NULL != 0
    }

    pub(crate) fn is_always(&self) -> bool {
        self.flags & ALWAYS != 0
    }

    pub(crate) fn omits_zero(&self) -> bool {
        self.flags & OMIT_ZERO != 0
    }

    pub(crate) fn is_pointer(&self) -> bool {
        self.flags & POINTER != 0
    }

    #[inline]
    pub(crate) fn is_managed_fields(&self) -> bool {
        self.flags & MANAGED != 0
    }

    /// Whether the value is a varint or fixed-size number, which may be packed.
    pub(crate) fn is_numeric(&self) -> bool {
        matches!(self.kind, Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double)
    }

    /// What the type is called in errors.
    pub(crate) fn expected(&self) -> &'static str {
        match self.kind {
            Kind::String => "a string",
            Kind::Bytes => "bytes",
            Kind::Bool => "a boolean",
            Kind::Int32 => "a 32-bit integer",
            Kind::Int64 => "a 64-bit integer",
            Kind::Double => "a double",
            Kind::Time => "a Time message",
            Kind::MicroTime => "a MicroTime message",
            Kind::Duration => "a Duration message",
            Kind::Quantity => "a Quantity message",
            Kind::IntOrString => "an IntOrString message",
            Kind::RawExtension => "a RawExtension message",
            Kind::FieldsV1 => "a FieldsV1 message",
            Kind::Json => "a JSON message",
            Kind::Strings => "a message of strings",
            Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => "a schema message",
            Kind::Message => self.message.name,
        }
    }
}

static NO_MESSAGE: Message = message("", &[]);
/// Stands for the numbers a message has no field for.
const NO_FIELD: FieldSchema = field("", Shape::None, Kind::String, &NO_MESSAGE, 0);
pub(crate) static ABSENT: FieldSchema = NO_FIELD;

const fn field(
    name: &'static str,
    shape: Shape,
    kind: Kind,
    message: &'static Message,
    flags: u16,
) -> FieldSchema {
    FieldSchema {
        name,
        message,
        shape,
        kind,
        flags,
    }
}

const fn scalar(name: &'static str, kind: Kind, flags: u16) -> FieldSchema {
    field(name, Shape::Single, kind, &NO_MESSAGE, flags)
}

const fn list(name: &'static str, kind: Kind, flags: u16) -> FieldSchema {
    field(name, Shape::List, kind, &NO_MESSAGE, flags)
}

const fn map(name: &'static str, kind: Kind, flags: u16) -> FieldSchema {
    field(name, Shape::Map, kind, &NO_MESSAGE, flags)
}

const fn of(name: &'static str, message: &'static Message, flags: u16) -> FieldSchema {
    field(name, Shape::Single, Kind::Message, message, flags)
}

const fn list_of(name: &'static str, message: &'static Message, flags: u16) -> FieldSchema {
    field(name, Shape::List, Kind::Message, message, flags)
}

const fn map_of(name: &'static str, message: &'static Message, flags: u16) -> FieldSchema {
    field(name, Shape::Map, Kind::Message, message, flags)
}

/// The number of the field that identifies an element.
const fn key(number: u16) -> u16 {
    number * KEY
}

const fn embedded(message: &'static Message) -> FieldSchema {
    field("", Shape::Embedded, Kind::Message, message, ALWAYS)
}

/// A message of the table.
pub struct Message {
    name: &'static str,
    /// The numbers of the fields that JSON has even if they are absent from the wire.
    always: u64,
    /// By number.
    fields: &'static [FieldSchema],
}

const fn message(name: &'static str, fields: &'static [FieldSchema]) -> Message {
    let (mut always, mut number) = (0, 0);
    while number < fields.len() {
        if fields[number].flags & ALWAYS != 0 {
            always |= 1 << number;
        }
        number += 1;
    }
    Message { name, always, fields }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({})", self.name)
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Message {}

impl Message {
    /// The name, such as `core.v1.Pod`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The fields with their numbers.
    pub fn fields(&self) -> impl Iterator<Item = (u32, &'static FieldSchema)> {
        (0..)
            .zip(self.fields)
            .filter(|(_, field)| field.shape != Shape::None)
    }

    /// The field of this number.
    #[inline]
    pub fn field(&self, number: u32) -> Option<&'static FieldSchema> {
        self.fields
            .get(number as usize)
            .filter(|field| field.shape != Shape::None)
    }

    #[inline]
    pub(crate) fn always(&self) -> u64 {
        self.always
    }

    /// Whether objects of this message have the usual metadata in field 1, so that the functions of
    /// [`raw`](crate::raw) about metadata apply.
    pub fn has_object_meta(&self) -> bool {
        self.field(1)
            .is_some_and(|field| field.message.name == "meta.v1.ObjectMeta")
    }

    /// The message of the items, if this is a list kind.
    pub fn items(&self) -> Option<&'static Message> {
        let field = self
            .field(2)
            .filter(|field| field.name == "items" && field.kind == Kind::Message)?;
        self.field(1)
            .filter(|field| field.message.name == "meta.v1.ListMeta")
            .map(|_| field.message)
    }
}

/// The message of a kind: `lookup("apps/v1", "Deployment")`, `lookup("v1", "Pod")`.
///
/// `None` for kinds without a schema: custom resources, and built-in kinds newer than the table.
pub fn lookup(api_version: &str, kind: &str) -> Option<&'static Message> {
    let of = |api_version: &str| {
        let at = table::KINDS
            .binary_search_by_key(&api_version, |(version, _)| version)
            .ok()?;
        let kinds = table::KINDS[at].1;
        kinds
            .binary_search_by_key(&kind, |(kind, _)| kind)
            .ok()
            .map(|at| kinds[at].1)
    };
    of(api_version).or_else(|| {
        // Options and events are part of every group version.
        of("v1").filter(|message| {
            message.name.starts_with("meta.v1.") && (kind.ends_with("Options") || kind == "WatchEvent")
        })
    })
}

/// The message of a kind by group, version and kind. The core group is empty.
pub fn lookup_gvk(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    if group.is_empty() {
        lookup(version, kind)
    } else {
        lookup(&format!("{group}/{version}"), kind)
    }
}

/// Every kind of the table as API version, kind and message.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static Message)> {
    table::KINDS
        .iter()
        .flat_map(|(version, kinds)| kinds.iter().map(|(kind, message)| (*version, *kind, *message)))
}
