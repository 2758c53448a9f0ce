//! `InformerKey`: the identity of a shared informer.

use std::any::TypeId;

use crate::object::Object;
use crate::scope::Scope;
use crate::source::ResourceType;

/// Requests with equal keys share an informer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    object: TypeId,
    identity: InformerIdentity,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum InformerIdentity {
    /// A collection of the API, with the options of the factory.
    Collection {
        group: String,
        /// `None` follows whatever version the server serves.
        version: Option<String>,
        plural: String,
        metadata_only: bool,
        scope: Scope,
    },
    /// Built by a constructor function.
    Constructor { function: TypeId, scope: Scope },
    /// Named by the user.
    Named { name: String, scope: Scope },
}

impl InformerKey {
    pub(super) fn of<K: Object>(identity: InformerIdentity) -> Self {
        Self {
            object: TypeId::of::<K>(),
            identity,
        }
    }
}

impl InformerIdentity {
    pub(super) fn collection(resource: &ResourceType, scope: &Scope) -> Self {
        let api = resource.api();
        Self::Collection {
            group: api.group.clone(),
            version: Some(api.version.clone()),
            plural: api.plural.clone(),
            metadata_only: resource.is_metadata_only(),
            scope: scope.clone(),
        }
    }

    pub(super) fn any_version(resource: &ResourceType, scope: &Scope) -> Self {
        let mut what = Self::collection(resource, scope);
        if let Self::Collection { version, .. } = &mut what {
            *version = None;
        }
        what
    }

    pub(super) fn constructor<F: 'static>(_: &F, scope: &Scope) -> Self {
        const {
            assert!(
                size_of::<F>() == 0,
                "the constructor captures values or is a function pointer, so its type does not identify what it \
                 builds: use `informer_named`"
            );
        }
        Self::Constructor {
            function: TypeId::of::<F>(),
            scope: scope.clone(),
        }
    }

    pub(super) fn named(name: &str, scope: &Scope) -> Self {
        Self::Named {
            name: name.to_owned(),
            scope: scope.clone(),
        }
    }
}
