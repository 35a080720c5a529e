//! Loading and running a program: what the programs in `bin/` call.
//!
//! Invariant: the heap is committed exactly if the program ran to its end and all its output was handed over.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::rc::Rc;

use awk_syntax::independence::{self, MergeArray, Plan};
use awk_syntax::names::{Library, Special};
use awk_syntax::{Diagnostic, Diagnostics, Dialect, Kind, Resolved, Severity, Sources};
use heap::{Durability, Heap};

use crate::code::Code;
use crate::compile::{Wish, compile};
use crate::debugger::Debugger;
use crate::error::{Error, Fatal, Reason};
use crate::locale::DatesOf;
use crate::num::InputForms;
use crate::records::Separator;
use crate::regex::{self, Syntax};
use crate::settings::{Notation, Settings};
use crate::store::Store;
use crate::streams::Streams;
use crate::surroundings::{Surroundings, lend_stack};
use crate::text::Charset;
use crate::value::Value;
use crate::vm::{EndProcess, Input, NamedVariable, Phase, Resume, Vm, WhenNative};
use crate::watch::{Profile, Trace};

/// How a program is read.
#[derive(Clone, Debug)]
pub struct Language {
    /// What a character is.
    pub charset: Charset,
    /// Its dialect, and the libraries loaded from outside it.
    pub reading: awk_syntax::Options,
    /// How its regular expressions are read.
    pub syntax: Syntax,
    /// Where `@include` looks for files.
    pub include_path: Vec<PathBuf>,
    /// What the code must be able to do besides.
    pub wish: Wish,
    /// A warning of lint ends the run (`--lint=fatal`).
    pub lint_is_fatal: bool,
    /// How the locale writes dates.
    pub dates: Rc<DatesOf>,
    /// Several processes may read the input (`-j`).
    pub shared: bool,
    /// `0x11` and `011` in input are hexadecimal and octal numbers.
    pub non_decimal: bool,
}

impl Language {
    /// gawk's language.
    pub fn new(charset: Charset) -> Language {
        Language {
            charset,
            reading: awk_syntax::Options {
                lend_stack: Some(lend_stack),
                ..awk_syntax::Options::default()
            },
            syntax: Syntax::Gawk,
            include_path: Vec::new(),
            wish: Wish::default(),
            lint_is_fatal: false,
            dates: Rc::default(),
            shared: false,
            non_decimal: false,
        }
    }
}

/// A program that is ready to run.
pub struct Loaded {
    /// The tree with its names.
    pub resolved: Resolved,
    /// The code.
    pub code: Code,
    /// What should be told to the user, one rendered line each.
    pub warnings: Vec<String>,
    /// How several processes may share the records, or why they cannot, one line for each reason; none if they shall not.
    pub plan: Option<Result<Plan, Vec<String>>>,
    language: Language,
}

/// Reads, resolves and compiles a program. Functions that it calls but does not define come from `heap`.
///
/// # Errors
/// [`Error::Syntax`] with all messages; damage of the heap.
pub fn load(sources: Sources, heap: &Heap, language: Language) -> Result<Loaded, Error> {
    let mut world = Surroundings::new(heap, &sources, language.include_path.clone());
    let (result, diagnostics) = awk_syntax::load(sources, &language.reading, &mut world);
    if let Some(error) = world.trouble {
        return Err(error.into());
    }
    let resolved = match result {
        Ok(resolved) => resolved,
        Err(sources) => return Err(refusal(&diagnostics, &sources)),
    };
    let mut warnings = rendered(&diagnostics, &resolved.sources, true);
    if language.lint_is_fatal && diagnostics.list().iter().any(|d| d.lint.is_some()) {
        return Err(Error::Misuse(warnings));
    }
    let mut diagnostics = Diagnostics::default();
    let options = regex::Options {
        charset: language.charset,
        syntax: language.syntax,
        ignore_case: false,
    };
    let plan = language.shared.then(|| plan(&resolved));
    let shared = plan.as_ref().and_then(|plan| plan.as_ref().ok());
    let mut wish = language.wish;
    // A heap that is a file keeps the arrays, and what several processes make is put together from them.
    let makes_anew = |plan: &Plan| plan.arrays.iter().any(|(_, m)| *m == MergeArray::Whole);
    wish.parts &=
        !heap.is_persistent() && !language.reading.lints.general && !shared.is_some_and(makes_anew);
    let code = compile(&resolved, options, wish, shared, &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(refusal(&diagnostics, &resolved.sources));
    }
    warnings.extend(rendered(&diagnostics, &resolved.sources, true));
    Ok(Loaded {
        resolved,
        code,
        warnings,
        plan,
        language,
    })
}

/// How several processes may share a program's records.
fn plan(program: &Resolved) -> Result<Plan, Vec<String>> {
    independence::plan(program).map_err(|reasons| {
        let line = |reason: independence::Reason| {
            format!("{}: {}", program.sources.place(reason.span), reason.what)
        };
        reasons.into_iter().map(line).collect()
    })
}

/// The program as gawk's pretty printer writes it; it need not be one that can run.
///
/// # Errors
/// As [`load`].
pub fn pretty(
    sources: Sources,
    heap: &Heap,
    language: &Language,
    includes: &[String],
) -> Result<String, Error> {
    let mut world = Surroundings::new(heap, &sources, language.include_path.clone());
    let reading = &language.reading;
    let (result, diagnostics) = awk_syntax::print::pretty(sources, includes, reading, &mut world);
    result.map_err(|sources| refusal(&diagnostics, &sources))
}

/// The template for translators of a program's texts (`--gen-pot`).
///
/// # Errors
/// As [`load`].
pub fn template(sources: Sources, heap: &Heap, language: &Language) -> Result<String, Error> {
    let mut world = Surroundings::new(heap, &sources, language.include_path.clone());
    let (result, diagnostics) =
        awk_syntax::gettext::template(sources, &language.reading, &mut world);
    result.map_err(|sources| refusal(&diagnostics, &sources))
}

/// One line for each warning, or for each error and misuse.
fn rendered(diagnostics: &Diagnostics, sources: &Sources, warnings: bool) -> Vec<String> {
    let wanted = |d: &&Diagnostic| (d.severity == Severity::Warning) == warnings;
    let list = diagnostics.list().iter().filter(wanted);
    list.map(|d| d.render(sources)).collect()
}

fn refusal(diagnostics: &Diagnostics, sources: &Sources) -> Error {
    let lines = rendered(diagnostics, sources, false);
    let is_text = |severity: Severity| severity == Severity::Error;
    if diagnostics.list().iter().any(|d| is_text(d.severity)) {
        Error::Syntax(lines)
    } else {
        Error::Misuse(lines)
    }
}

/// What a run gets from the outside.
pub struct Setup {
    /// All words of the command line, for PROCINFO.
    pub command_line: Vec<Vec<u8>>,
    /// ARGV[0].
    pub argv0: Vec<u8>,
    /// ARGV from 1 on.
    pub operands: Vec<Vec<u8>>,
    /// `-v` assignments, `name=value`.
    pub assigns: Vec<Vec<u8>>,
    /// `-F`.
    pub field_separator: Option<Vec<u8>>,
    /// ENVIRON.
    pub environ: Vec<(Vec<u8>, Vec<u8>)>,
    /// Standard input; the process's own if `None`.
    pub stdin: Option<Box<dyn Read>>,
    /// Standard output.
    pub stdout: Box<dyn Write>,
    /// Somebody types what standard input gives.
    pub stdin_is_terminal: bool,
    /// Each statement's output goes out at once.
    pub stdout_is_terminal: bool,
    /// Is told what does not end the run: an operand that cannot be read.
    pub warn: Box<dyn FnMut(String)>,
    /// Whether commits wait for the medium.
    pub durability: Durability,
    /// How fields are written in the input.
    pub input: Notation,
    /// When loops and functions become native code; unless it is never, `Wish::native` must be set.
    pub native: WhenNative,
    /// How `print` writes its values; `Wish::notation` must be set for it.
    pub output: Notation,
    /// The array that gets each record, which is JSON.
    pub json: Option<Vec<u8>>,
    /// No commands, no files but the operands.
    pub sandbox: bool,
    /// Records between two commits; 0: one commit at the end.
    pub commit_every: u64,
    /// The name of the job whose positions in its input files are kept.
    pub resume: Option<Vec<u8>>,
    /// So many processes read the input, where [`Loaded::plan`] allows it and the input is files; and how they end.
    pub jobs: Option<(usize, EndProcess)>,
    /// `warn` is told what became of that.
    pub explain_parallel: bool,
    /// Operands of the form `name=value` are files.
    pub no_assignments: bool,
    /// Gets the program with counts after the run; `Wish::marked` must be set for it.
    pub profile: Option<Box<dyn Write>>,
    /// A debugger's commands, and where it answers; likewise.
    pub debugger: Option<(Box<dyn BufRead>, Box<dyn Write>)>,
    /// Gets each statement before it runs; likewise.
    pub trace: Option<Box<dyn Write>>,
    /// Gets all global variables after the run.
    pub dump_variables: Option<Box<dyn Write>>,
}

impl Setup {
    /// A run that prints to `stdout`, with nothing else from the outside but standard input.
    pub fn new(stdout: Box<dyn Write>) -> Setup {
        Setup {
            command_line: Vec::new(),
            argv0: b"awk".to_vec(),
            operands: Vec::new(),
            assigns: Vec::new(),
            field_separator: None,
            environ: Vec::new(),
            stdin: None,
            stdout,
            stdin_is_terminal: false,
            stdout_is_terminal: false,
            warn: Box::new(|_| {}),
            durability: Durability::Durable,
            native: WhenNative::default(),
            input: Notation::Plain,
            output: Notation::Plain,
            json: None,
            sandbox: false,
            commit_every: 0,
            resume: None,
            jobs: None,
            explain_parallel: false,
            no_assignments: false,
            profile: None,
            trace: None,
            debugger: None,
            dump_variables: None,
        }
    }
}

/// Runs a program to its end and gives its exit status. `heap_name` is for messages.
///
/// # Errors
/// What ended the run early; nothing is committed then.
pub fn run(loaded: &Loaded, heap: Heap, heap_name: &str, setup: Setup) -> Result<i32, Error> {
    let durability = setup.durability;
    let wants_one = wants_one_process(loaded, &setup);
    crate::exact::set_rules(loaded.language.wish.exact.then(Default::default));
    let (store, globals) = Store::open(heap, heap_name, &loaded.resolved)?;
    let mut streams = Streams::new(setup.stdout, setup.stdout_is_terminal);
    if let Some(stdin) = setup.stdin {
        streams.set_stdin(stdin);
    }
    streams.tune(&setup.environ);
    let mut argv = vec![setup.argv0];
    argv.extend(setup.operands);
    let numbers = loaded.language.wish.numbers;
    let dates = loaded.language.dates.clone();
    let mut settings = Settings::new(loaded.language.charset, numbers, dates);
    settings.syntax = loaded.language.syntax;
    let argc = Value::Num(argv.len() as f64);
    settings
        .set(Special::ARGC, argc)
        .map_err(|e| Error::Run(e.to_string()))?;
    let input = Input::new(
        argv.split_off(1),
        command_line_names(&loaded.resolved),
        setup.warn,
    );
    let mut vm = Vm::new(
        &loaded.code,
        &loaded.resolved,
        store,
        globals,
        settings,
        streams,
        input,
    );
    vm.durability = durability;
    vm.native.when(setup.native);
    vm.define_library_variables()
        .map_err(|fatal| Error::Run(fatal.to_string()))?;
    vm.lint_is_fatal = loaded.language.lint_is_fatal;
    if loaded.language.reading.lints.general {
        let value = if vm.lint_is_fatal {
            Value::text(b"fatal", false)
        } else {
            Value::Num(1.0)
        };
        vm.set_special(Special::LINT, value)
            .map_err(|e| Error::Run(e.to_string()))?;
    }
    vm.command_line = setup.command_line;
    vm.commit_every = setup.commit_every;
    if let Some(job) = &setup.resume {
        if loaded.resolved.libraries.contains(&Library::Inplace) {
            return Err(Error::Run(
                "--resume does not go with library inplace: a file that is read only from where the last run ended cannot be \
                 written anew"
                    .to_string(),
            ));
        }
        vm.resume = Some(Resume::open(&vm.store.main, job)?);
    }
    vm.sandbox = setup.sandbox;
    vm.input.no_assignments = setup.no_assignments;
    vm.record.notation = setup.input;
    vm.settings.input = setup.input;
    vm.settings.output = setup.output;
    vm.settings.cut_by = setup.input.name();
    if setup.input == Notation::Csv {
        vm.settings.separator = Rc::new(Separator::Csv);
    }
    if let Some(name) = &setup.json {
        vm.use_json(name)
            .map_err(|fatal| Error::Run(fatal.to_string()))?;
    }
    crate::num::set_point(numbers.other_point().unwrap_or(b"."));
    crate::num::set_input_forms(if loaded.language.non_decimal {
        InputForms::NonDecimal
    } else if loaded.language.reading.dialect == Dialect::Posix {
        InputForms::Posix
    } else {
        InputForms::Decimal
    });
    if let (Some(plan), Some((jobs, leave))) = (&loaded.plan, setup.jobs) {
        let plan = match wants_one {
            Some(why) => Err(vec![why.to_string()]),
            None => plan.clone(),
        };
        vm.share_records(plan, jobs, leave, setup.explain_parallel);
    }
    let prepared = prepare(
        &mut vm,
        &argv[0],
        setup.field_separator,
        &setup.assigns,
        &setup.environ,
    );
    let profile = Profile::default();
    if setup.profile.is_some() {
        vm.watch = Some(Box::new(profile.clone()));
    } else if let Some((input, output)) = setup.debugger {
        vm.watch = Some(Box::new(Debugger::new(
            input,
            output,
            setup.stdin_is_terminal,
        )));
    } else if let Some(out) = setup.trace {
        vm.watch = Some(Box::new(Trace(out)));
    }
    let result = match prepared {
        Ok(()) => vm
            .run_watched()
            .map_err(|fatal| with_position(&vm, &loaded.resolved, &fatal)),
        Err(fatal) => Err(Error::Run(fatal.to_string())),
    };
    vm.end_worker();
    if let (Ok(()), Some(mut out)) = (&result, setup.dump_variables) {
        // An output that failed says so below.
        vm.streams.flush_outputs();
        vm.dump_variables(&mut out)
            .map_err(|fatal| Error::Run(fatal.to_string()))?;
    }
    if let Some(mut out) = setup.profile {
        vm.streams.flush_outputs();
        let text = format!(
            "\t# awk profile, created {}\n\n{}",
            vm.date_text(),
            loaded.resolved.profile(&profile)
        );
        out.write_all(text.as_bytes()).map_err(|error| {
            Error::Run(format!(
                "cannot write the profile: {}",
                crate::error::system_reason(&error)
            ))
        })?;
    }
    // What was printed before an error is still printed.
    let closed = vm.close_streams();
    result?;
    closed.map_err(|fatal| match fatal.reason() {
        Reason::BrokenPipe => Error::BrokenPipe,
        Reason::Message(message) | Reason::Operand(message) => Error::Run(message.clone()),
        Reason::Quit => Error::Quit,
        Reason::Exit => Error::Run(fatal.to_string()),
    })?;
    vm.commit().map_err(|fatal| Error::Run(fatal.to_string()))?;
    let exit_code = vm.exit_code;
    // The commit is already as durable as was asked for: this flushes again only to recycle a long journal, or to give
    // the space of what was deleted back to the file system.
    vm.store.main.close(durability)?;
    Ok(exit_code)
}

/// What, besides the program itself, is for one process only.
fn wants_one_process(loaded: &Loaded, setup: &Setup) -> Option<&'static str> {
    let watched = setup.profile.is_some() || setup.debugger.is_some() || setup.trace.is_some();
    let language = &loaded.language;
    let list = [
        (watched, "somebody watches the run"),
        (
            setup.resume.is_some(),
            "--resume notes the positions that one process reaches",
        ),
        (
            setup.commit_every > 0,
            "--commit-every commits as one process counts",
        ),
        (
            setup.json.is_some(),
            "--json-lines makes an array of each record",
        ),
        (!loaded.resolved.libraries.is_empty(), "a library is loaded"),
        (setup.sandbox, "--sandbox allows no other process"),
        (language.wish.exact, "--bignum has numbers without bounds"),
        (
            language.reading.lints.general,
            "--lint looks at one record after the other",
        ),
    ];
    list.into_iter()
        .find(|(is_so, _)| *is_so)
        .map(|(_, why)| why)
}

fn prepare(
    vm: &mut Vm<'_>,
    argv0: &[u8],
    field_separator: Option<Vec<u8>>,
    assigns: &[Vec<u8>],
    environ: &[(Vec<u8>, Vec<u8>)],
) -> Result<(), Fatal> {
    vm.fill_special_arrays(argv0, environ)?;
    if let Some(separator) = field_separator {
        vm.assign_named(b"FS", &separator)?;
    }
    for assign in assigns {
        match crate::vm::assignment(assign) {
            Some((name, text)) => {
                let text = vm.settings.numbers.of_assignment(text);
                vm.assign_named(name, &text)?;
            }
            None => {
                let shown = String::from_utf8_lossy(assign);
                return Err(Fatal::operand(format!(
                    "option -v: `{shown}` is no assignment: expected name=value"
                )));
            }
        }
    }
    Ok(())
}

fn command_line_names(program: &Resolved) -> HashMap<Vec<u8>, NamedVariable> {
    let mut names = HashMap::new();
    for (at, global) in program.globals.iter().enumerate() {
        let meaning = if global.kind == Kind::Array {
            NamedVariable::Array(at as u32)
        } else {
            NamedVariable::Global(at as u32)
        };
        names.insert(program.names.text(global.name).as_bytes().to_vec(), meaning);
    }
    for f in &program.functions {
        names.insert(
            program.names.text(f.function.name).as_bytes().to_vec(),
            NamedVariable::Function,
        );
    }
    for special in Special::ALL {
        if program.dialect.special(special.name()).is_some() {
            let meaning = NamedVariable::Special(special);
            names.insert(special.name().as_bytes().to_vec(), meaning);
        }
    }
    names
}

/// Adds where in the program and where in the data.
fn with_position(vm: &Vm<'_>, program: &Resolved, fatal: &Fatal) -> Error {
    let message = match fatal.reason() {
        Reason::BrokenPipe => return Error::BrokenPipe,
        Reason::Operand(message) => return Error::Run(message.clone()),
        Reason::Message(message) => message.clone(),
        Reason::Quit => return Error::Quit,
        Reason::Exit => fatal.to_string(),
    };
    let place = vm
        .code
        .spans
        .get(vm.position())
        .map_or(String::new(), |span| program.sources.place(*span) + ": ");
    let record = if vm.settings.nr > 0.0 && vm.phase != Phase::Begin {
        let file = vm.settings.text_of(&vm.settings.get(Special::FILENAME));
        let file = if file.is_empty() || file == b"-" {
            "standard input".to_string()
        } else {
            format!("\"{}\"", String::from_utf8_lossy(&file))
        };
        let after = if vm.phase == Phase::End {
            "after record"
        } else {
            "record"
        };
        format!(" ({after} {} of {file})", vm.settings.fnr)
    } else {
        String::new()
    };
    Error::Run(format!("{place}{message}{record}"))
}
