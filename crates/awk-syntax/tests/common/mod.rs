//! What the tests of this crate share: a world in memory, and reading with messages as text.

#![allow(dead_code)] // each test program uses a part

use std::collections::HashMap;

use awk_syntax::{Included, Options, Resolved, Sources, World, load};

/// A heap and a folder of files, in memory.
#[derive(Default)]
pub struct Stored {
    pub functions: Vec<(String, String)>,
    pub globals: Vec<(String, bool)>,
    pub files: HashMap<String, String>,
    pub main_files: Vec<String>,
    pub included: Vec<String>,
}

impl Stored {
    pub fn functions(list: &[(&str, &str)]) -> Stored {
        Stored {
            functions: owned(list),
            ..Stored::default()
        }
    }

    pub fn files(list: &[(&str, &str)]) -> Stored {
        Stored {
            files: owned(list).into_iter().collect(),
            ..Stored::default()
        }
    }
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, text)| (name.to_string(), text.to_string()))
        .collect()
}

impl World for Stored {
    fn function_text(&mut self, name: &str) -> Option<Vec<u8>> {
        let found = self.functions.iter().find(|f| f.0 == name)?;
        Some(found.1.clone().into_bytes())
    }

    fn function_names(&mut self) -> Vec<String> {
        self.functions.iter().map(|f| f.0.clone()).collect()
    }

    fn global_names(&mut self) -> Vec<(String, bool)> {
        self.globals.clone()
    }

    fn include(&mut self, name: &str, _from: &str) -> Result<Included, String> {
        if self.main_files.iter().any(|f| f == name) {
            return Ok(Included::MainFile);
        }
        if self.included.iter().any(|f| f == name) {
            return Ok(Included::AlreadyThere);
        }
        let text = self.files.get(name).ok_or("no such file")?;
        self.included.push(name.to_string());
        Ok(Included::Text {
            name: name.to_string(),
            text: text.clone().into_bytes(),
        })
    }
}

/// Reads one source; messages as text, one per line.
pub fn read_with(text: &str, options: &Options, world: &mut dyn World) -> Result<Resolved, String> {
    let (result, messages) = read_all(&[("p.awk", text)], options, world);
    result.ok_or(messages)
}

/// As the interpreter reads: with a larger stack for what is nested deeply.
pub fn roomy() -> Options {
    Options {
        lend_stack: Some(|bytes, work| {
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(bytes);
                let handle = thread.spawn_scoped(scope, work).expect("a thread");
                handle.join().expect("no panic");
            });
            Ok(())
        }),
        ..Options::default()
    }
}

/// Reads one source of gawk's language with nothing around it.
pub fn read(text: &str) -> Result<Resolved, String> {
    read_with(text, &Options::default(), &mut Stored::default())
}

/// Reads several sources; gives warnings even if the program is read.
pub fn read_all(
    texts: &[(&str, &str)],
    options: &Options,
    world: &mut dyn World,
) -> (Option<Resolved>, String) {
    let mut sources = Sources::default();
    for (name, text) in texts {
        sources.add(*name, *text);
    }
    let (result, diagnostics) = load(sources, options, world);
    let sources = match &result {
        Ok(resolved) => &resolved.sources,
        Err(sources) => sources,
    };
    let messages = diagnostics
        .list()
        .iter()
        .map(|d| d.render(sources) + "\n")
        .collect();
    (result.ok(), messages)
}
