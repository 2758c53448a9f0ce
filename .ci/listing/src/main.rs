//! Writes a listing of each published crate's public API to `docs/api/`, or checks that the listings are up to date.
//!
//! Default features only; `#[doc(hidden)]` items are left out. Run it through `.ci/api-listing`.

use std::error::Error;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

/// The folders whose crates are published.
const PUBLISHED: [&str; 3] = ["library", "server", "program"];

/// Set when this program runs in place of rustdoc.
const AS_RUSTDOC: &str = "API_LISTING_AS_RUSTDOC";

fn main() -> ExitCode {
    if std::env::var_os(AS_RUSTDOC).is_some() {
        return run_rustdoc();
    }
    let check = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("usage: .ci/api-listing [--check]");
            return ExitCode::FAILURE;
        }
    };
    match listings(check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the public API has changed: run .ci/api-listing and commit docs/api/ with the change");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// JSON output is unstable. Only rustdoc gets the variable that unlocks it: with `RUSTC_BOOTSTRAP` in cargo's
/// environment, every dependency would be rebuilt.
fn run_rustdoc() -> ExitCode {
    let error = Command::new("rustdoc")
        .args(std::env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1")
        .exec();
    eprintln!("error: cannot run rustdoc: {error}");
    ExitCode::FAILURE
}

/// Returns whether all listings were up to date, or have been written.
fn listings(check: bool) -> Result<bool, Box<dyn Error>> {
    let metadata = metadata()?;
    let root = PathBuf::from(text(&metadata["workspace_root"])?);
    let target = PathBuf::from(text(&metadata["target_directory"])?);
    let folder = root.join("docs/api");
    fs::create_dir_all(&folder)?;

    let mut expected = Vec::new();
    let mut unchanged = true;
    let libraries = published_libraries(&metadata, &root)?;
    document(&libraries)?;
    for Library { package, name, .. } in libraries {
        let listing = listing(&target.join(format!("doc/{name}.json")))?;
        let file = folder.join(format!("{package}.txt"));
        if check {
            unchanged &= compare(&file, &listing)?;
        } else {
            fs::write(&file, listing)?;
            println!("{}", file.display());
        }
        expected.push(file);
    }
    for entry in fs::read_dir(&folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "txt") && !expected.contains(&file) {
            if check {
                eprintln!("{}: no such crate is published", file.display());
                unchanged = false;
            } else {
                fs::remove_file(&file)?;
            }
        }
    }
    Ok(unchanged)
}

fn metadata() -> Result<Value, Box<dyn Error>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The library of a published crate.
struct Library {
    package: String,
    name: String,
    /// Whether it enables features of other published crates, which are not to be listed.
    enables_features: bool,
}

/// The libraries of what is published: the crates of the published houses that do not say `publish = false`.
fn published_libraries(metadata: &Value, root: &Path) -> Result<Vec<Library>, Box<dyn Error>> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(text(&package["manifest_path"])?);
        let published = package["publish"]
            .as_array()
            .is_none_or(|registries| !registries.is_empty());
        if !published || !PUBLISHED.iter().any(|house| manifest.starts_with(root.join(house))) {
            continue;
        }
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_library = target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"));
            if is_library {
                found.push(Library {
                    package: text(&package["name"])?.to_owned(),
                    name: text(&target["name"])?.replace('-', "_"),
                    enables_features: enables_features(package),
                });
            }
        }
    }
    found.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(found)
}

/// Whether a package depends on another one of this repository with features.
fn enables_features(package: &Value) -> bool {
    let dependencies = package["dependencies"].as_array();
    dependencies.into_iter().flatten().any(|dependency| {
        let is_built = dependency["kind"].is_null() && dependency["optional"] == false;
        let has_features = (dependency["features"].as_array()).is_some_and(|features| !features.is_empty());
        is_built && has_features && dependency["path"].is_string()
    })
}

/// Writes the documentation of these libraries as JSON: in one command, so that their dependencies are compiled once.
/// A library that enables features of others is documented separately.
fn document(libraries: &[Library]) -> Result<(), Box<dyn Error>> {
    let (separate, together): (Vec<&Library>, Vec<&Library>) =
        libraries.iter().partition(|library| library.enables_features);
    for group in std::iter::once(together).chain(separate.into_iter().map(|library| vec![library])) {
        let status = Command::new("cargo")
            .args(["doc", "--quiet", "--locked", "--no-deps", "--lib"])
            .args(group.iter().flat_map(|library| ["--package", &library.package]))
            .env("RUSTDOC", std::env::current_exe()?)
            .env(
                "RUSTDOCFLAGS",
                "-Zunstable-options --output-format json --cap-lints allow",
            )
            .env(AS_RUSTDOC, "1")
            .status()?;
        if !status.success() {
            return Err("cargo doc failed".into());
        }
    }
    Ok(())
}

fn listing(json: &Path) -> Result<String, Box<dyn Error>> {
    let format = serde_json::from_slice::<Value>(&fs::read(json)?)?["format_version"].as_u64();
    let supported = u64::from(rustdoc_types::FORMAT_VERSION);
    if format != Some(supported) {
        return Err(format!(
            "this compiler writes format {format:?} of rustdoc's JSON and the listing needs {supported}: \
             use Rust 1.95, or update public-api in .ci/listing/Cargo.toml"
        )
        .into());
    }
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .sorted(true)
        .build()?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Prints the lines that differ.
fn compare(file: &Path, listing: &str) -> Result<bool, Box<dyn Error>> {
    let before = fs::read_to_string(file).unwrap_or_default();
    for line in before
        .lines()
        .filter(|line| !listing.lines().any(|other| other == *line))
    {
        println!("{}: -{line}", file.display());
    }
    for line in listing
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line))
    {
        println!("{}: +{line}", file.display());
    }
    Ok(before == listing)
}

fn text(value: &Value) -> Result<&str, Box<dyn Error>> {
    value
        .as_str()
        .ok_or_else(|| "unexpected output of cargo metadata".into())
}
