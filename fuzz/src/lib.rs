//! What the targets share: one run of a program in memory.
//!
//! Invariant: a run here touches no file and starts no process (the sandbox is on), and the same program and input give the
//! same output each time.

use std::cell::RefCell;
use std::io::{Cursor, Write};
use std::rc::Rc;

use awk::settings::Notation;
use awk::text::Charset;
use awk::{Error, Language, Setup};
use awk_syntax::Sources;
use heap::{Durability, Heap};

/// Output in memory, which whoever has a clone can read after the run.
#[derive(Clone, Default)]
pub struct Sink(Rc<RefCell<Vec<u8>>>);

impl Sink {
    /// What was written.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How a program is run.
pub struct Run {
    /// What a character is.
    pub charset: Charset,
    /// How fields are written in the input.
    pub input: Notation,
    /// The array that gets each record, which is JSON.
    pub json: Option<&'static str>,
    /// With a profile, which must change nothing.
    pub profiled: bool,
}

impl Run {
    /// Of plain text.
    pub fn new(charset: Charset) -> Run {
        Run {
            charset,
            input: Notation::Plain,
            json: None,
            profiled: false,
        }
    }

    /// Runs `program` on `input` in a volatile heap: how it ended, and what it printed.
    ///
    /// # Panics
    /// If there is no memory for a heap.
    pub fn play(&self, program: &str, input: &[u8]) -> (Result<i32, Error>, Vec<u8>) {
        let heap = Heap::volatile().expect("memory for a volatile heap");
        let mut sources = Sources::default();
        sources.add("p.awk", program);
        let sink = Sink::default();
        let mut language = Language::new(self.charset);
        language.wish.marked = self.profiled;
        let setup = Setup {
            stdin: Some(Box::new(Cursor::new(input.to_vec()))),
            durability: Durability::Lazy,
            sandbox: true,
            input: self.input,
            json: self.json.map(|name| name.as_bytes().to_vec()),
            profile: self
                .profiled
                .then(|| Box::new(std::io::sink()) as Box<dyn Write>),
            ..Setup::new(Box::new(sink.clone()))
        };
        let result = awk::load(sources, &heap, language)
            .and_then(|loaded| awk::run(&loaded, heap, "", setup));
        (result, sink.bytes())
    }
}
