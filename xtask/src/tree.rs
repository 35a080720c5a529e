//! The sources and manifests of the workspace, read once.
//!
//! The invariant: what is not part of the project (build output, hidden folders) is not in it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::Source;

/// What the guards look at.
#[derive(Default)]
pub struct Tree {
    /// Rust files, by path.
    pub sources: Vec<Source>,
    /// Cargo.toml files: path and text.
    pub manifests: Vec<(String, String)>,
}

impl Tree {
    /// Reads everything below `root`.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        for top in ["crates", "bin", "xtask", "bench", "fuzz"] {
            if root.join(top).is_dir() {
                tree.read_folder(root, top)?;
            }
        }
        tree.read_file(root, "Cargo.toml".into())?;
        tree.sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).with_context(|| format!("cannot read folder {path:?}"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inner = format!("{folder}/{name}");
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    self.read_folder(root, &inner)?;
                }
            } else if name.ends_with(".rs") || name == "Cargo.toml" {
                self.read_file(root, inner)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: String) -> Result<()> {
        let full = root.join(&path);
        let text = fs::read_to_string(&full).with_context(|| format!("cannot read {full:?}"))?;
        if path.ends_with(".rs") {
            self.sources.push(Source::new(path, &text));
        } else {
            self.manifests.push((path, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_and_built_folders_are_left_out() {
        let root = std::env::temp_dir().join(format!("perdure-xtask-{}", std::process::id()));
        for folder in ["crates/a/src", "crates/a/target/debug", "crates/.b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("lib.rs"), "fn f() {}").unwrap();
        }
        fs::write(root.join("Cargo.toml"), "[workspace]").unwrap();
        let tree = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let paths: Vec<&str> = tree.sources.iter().map(|s| s.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
        assert_eq!(tree.manifests.len(), 1);
    }
}
