//! Puts a helper before commands.
//!
//! The invariant is shown, not assumed: the edited text is read again, and what was read, without the helpers, must be what
//! the original was, with every helper where it was meant to be. The parser is not the shell; it is only asked where words
//! are, and whether two texts are one program.

use super::doubt::{self, Doubt};
use super::find::{Site, find};
use super::{Language, latin1};

/// How the shell was to get the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// As a text, and so it will.
    Text,
    /// As a file: the edited text will be handed to it as a text that has the file's name.
    File,
}

/// A script with helpers in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edited {
    /// The new text; on every line, it has the commands that the old one has there.
    pub text: Vec<u8>,
    /// Where helpers were put, as places in the old text.
    pub sites: Vec<Site>,
}

/// What is put before commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Helper<'a> {
    /// A word that the shell takes as it is, and that stands nowhere in the text.
    pub word: &'a str,
    /// A number that all of this script's helpers are to know.
    pub session: u32,
}

/// What stands before a command: the helper, then a tag that says which stage of what pipeline this is, which of that
/// pipeline's stages have helpers too (`1`) or not (`0`), and the session: `@LINE:PIPELINE:STAGE:HELPERS:SESSION`, as in `@12:3:0:110:4711`.
fn insertion(helper: Helper<'_>, site: &Site, sites: &[Site]) -> String {
    let helpers: String = (0..site.stages)
        .map(|stage| {
            let same = |other: &Site| other.pipeline == site.pipeline && other.stage == stage;
            if sites.iter().any(same) { '1' } else { '0' }
        })
        .collect();
    let (line, pipeline, stage) = (site.line, site.pipeline, site.stage);
    let Helper { word, session } = helper;
    format!("{word} @{line}:{pipeline}:{stage}:{helpers}:{session} ")
}

/// Puts a helper before each command of which `wanted` says so. Functions that the script defines are never touched.
///
/// # Errors
/// Why the script should run as it is.
pub fn edit(
    text: &[u8],
    language: Language,
    origin: Origin,
    helper: Helper<'_>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Edited, Doubt> {
    if let Some(doubt) = doubt::of_text(text) {
        return Err(doubt);
    }
    let found = find(text, language).map_err(Doubt::Syntax)?;
    if let Some(doubt) = doubt::of_commands(&found, language) {
        return Err(doubt);
    }
    if origin == Origin::File
        && let Some(doubt) = doubt::of_file(text, &found, language)
    {
        return Err(doubt);
    }
    // What a shell says of a job that was killed shows its text.
    let kills = found.commands.iter().any(|words| words[0] == "kill");
    let mut sites = found.sites;
    sites.retain(|site| {
        wanted(&site.name) && !found.functions.contains(&site.name) && !(site.background && kills)
    });
    let mut edited = Vec::with_capacity(text.len() + 64 * sites.len());
    let mut done = 0;
    let mut places = Vec::new();
    for site in &sites {
        edited.extend_from_slice(&text[done..site.at]);
        places.push(edited.len());
        edited.extend_from_slice(insertion(helper, site, &sites).as_bytes());
        done = site.at;
    }
    edited.extend_from_slice(&text[done..]);
    if sites.is_empty() {
        return Ok(Edited {
            text: edited,
            sites,
        });
    }
    let again = find(&edited, language).map_err(|_| Doubt::Differs)?;
    let mut printed = again.printed.clone();
    for site in &sites {
        printed = printed.replacen(&insertion(helper, site, &sites), "", 1);
    }
    let as_meant = again.helpers(helper.word).eq(places.iter().copied());
    if latin1(text).contains(helper.word) || printed != found.printed || !as_meant {
        return Err(Doubt::Differs);
    }
    Ok(Edited {
        text: edited,
        sites,
    })
}
