//! What `history` and `at` show of a recording: which objects, and with which values.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_informers::{Event, Object, Scope, Selector};

use crate::changes::Change;
use crate::changes::config::Config;
use crate::changes::noise::Noise;
use crate::cli::Global;
use crate::objects::item::{self, Item};
use crate::objects::kinds::{Catalogue, Group, Kind};
use crate::objects::redact::{Marks, Redaction};
use crate::process::failure::Failure;
use crate::recording::cursor::{Happened, Keep, Step};
use crate::recording::reader::{Recording, timestamp};
use crate::recording::state::Held;

/// Which objects of a recording are shown, and how.
pub struct Shown {
    labels: Selector,
    config: Config,
    show_noise: bool,
    /// For recordings that contain the values of Secrets.
    redaction: Redaction,
}

impl Shown {
    /// As the options say.
    ///
    /// # Errors
    ///
    /// A selector or the configuration file cannot be read.
    pub fn new(global: &Global, ignore: &[String]) -> Result<Self, Failure> {
        let selection = &global.selection;
        if selection.field_selector.is_some() {
            return Err(Failure::error(
                "--field-selector needs a server: use -n, -l, a kind and a name for a recording",
            ));
        }
        let labels = match &selection.selector {
            None => Selector::everything(),
            Some(labels) => Scope::all()
                .labels(labels)
                .map_err(|error| Failure::error(format!("unable to parse the selector {labels:?}: {error}")))?
                .label_selector()
                .clone(),
        };
        Ok(Self {
            labels,
            config: Config::load(global.showing.config.as_deref())?.ignoring(ignore),
            show_noise: global.showing.show_noise,
            redaction: Redaction::showing(global.showing.show_secrets),
        })
    }

    /// The object as it may be shown; `None` if it cannot be decoded.
    pub fn item(&self, kind: &Kind, held: &Held, masked: bool) -> Option<Arc<Item>> {
        let marks: Marks = match held.marks.is_empty() {
            true => Marks::new(),
            false => serde_json::from_slice(&held.marks).ok()?,
        };
        // What the recorder has masked is not masked again: the placeholders would be.
        let off = Redaction::off();
        let redaction = if masked { &off } else { &self.redaction };
        let item = item::restored(kind, &held.object, marks, redaction, self.show_noise).ok()?;
        Some(Arc::new(item))
    }

    /// Whether the labels of an object are selected.
    pub fn selects(&self, item: &Item) -> bool {
        self.labels.is_everything() || self.labels.matches_labels(|name| item.object_label(name))
    }

    /// The change of a step; `None` for other steps, and for what is not selected.
    ///
    /// # Errors
    ///
    /// The configuration file has a path that cannot be read.
    pub fn change(&self, step: &Step) -> Result<Option<Change>, Failure> {
        let Step::Change {
            time,
            kind,
            happened,
            merged,
            masked,
            ..
        } = step
        else {
            return Ok(None);
        };
        let item = |held: &Held| self.item(kind, held, *masked);
        let event = match happened {
            Happened::Added { new, initial } => item(new).map(|object| Event::Added {
                object,
                initial: *initial,
            }),
            Happened::Updated { old, new } => item(old).zip(item(new)).map(|(old, new)| Event::Updated {
                old,
                new,
                resync: false,
            }),
            Happened::Deleted { old, cause } => item(old).map(|object| Event::Deleted {
                object,
                cause: *cause,
            }),
        };
        let Some(event) = event.filter(|event| self.is_selected(event)) else {
            return Ok(None);
        };
        let noise = match self.show_noise {
            true => Noise::none(),
            false => self.config.noise(kind)?,
        };
        let mut change = Change::of(&event, kind, Some(&noise));
        change.when = timestamp(*time);
        change.coalesced = u64::from(*merged);
        Ok(Some(change))
    }

    fn is_selected(&self, event: &Event<Item>) -> bool {
        match event {
            Event::Updated { old, new, .. } => self.selects(old) || self.selects(new),
            Event::Added { object, .. } | Event::Deleted { object, .. } => self.selects(object),
        }
    }
}

/// The objects of these kinds, of this name, in the namespaces of the options.
///
/// # Errors
///
/// The recording has no such kind.
pub fn keep(
    recording: &mut Recording,
    kinds: Option<&str>,
    name: Option<&str>,
    global: &Global,
) -> Result<Keep, Failure> {
    let kinds: Option<BTreeSet<(String, String)>> = match kinds {
        None => None,
        Some(names) => {
            let identity = |kind: &Kind| (kind.full_name(), kind.version.clone());
            let found = find(&recording.kinds()?, names)?;
            Some(found.iter().map(identity).collect())
        }
    };
    let selection = &global.selection;
    let namespaces: Vec<String> = match selection.all_namespaces {
        true => Vec::new(),
        false => selection
            .namespace
            .iter()
            .filter(|name| !name.is_empty())
            .cloned()
            .collect(),
    };
    let name = name.map(str::to_owned);
    Ok(Box::new(move |kind, key| {
        name.as_ref().is_none_or(|name| name == key.name())
            && (namespaces.is_empty()
                || key
                    .namespace()
                    .is_none_or(|own| namespaces.iter().any(|name| name == own)))
            && kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&(kind.full_name(), kind.version.clone())))
    }))
}

/// The kinds of a recording that names refer to, by the rules of kubectl.
fn find(recorded: &[Kind], names: &str) -> Result<Vec<Kind>, Failure> {
    let mut catalogue = Catalogue::default();
    for kind in recorded {
        let at = catalogue.groups.iter().position(|group| group.name == kind.group);
        let at = at.unwrap_or_else(|| {
            catalogue.groups.push(Group {
                name: kind.group.clone(),
                versions: Vec::new(),
            });
            catalogue.groups.len() - 1
        });
        if let Some(group) = catalogue.groups.get_mut(at) {
            match group
                .versions
                .iter_mut()
                .find(|(version, _)| *version == kind.version)
            {
                Some((_, kinds)) => kinds.push(kind.clone()),
                None => group.versions.push((kind.version.clone(), vec![kind.clone()])),
            }
        }
    }
    catalogue.find_all(names).map_err(|_| {
        let mut known: Vec<String> = recorded.iter().map(Kind::full_name).collect();
        known.sort_unstable();
        known.dedup();
        Failure::error(format!(
            "the recording has no kind {names:?}: it contains {}",
            known.join(", ")
        ))
    })
}
