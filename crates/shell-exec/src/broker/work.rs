//! What a group of a plan comes to: a job for each host that has a part in it, the streams between them, and what each helper is told.
//!
//! The invariant: every byte that a lane prints goes through what puts the lanes together, in the order of the lanes; and a stage has ended when all
//! processes that are it have.

use std::collections::HashMap;
use std::path::Path;

use shell_plan::annotation::Status;
use shell_plan::plan::{Combiner, Group, Lane, Moved, Part, Tree};
use shell_plan::plan::{Place as At, Plan};

use super::facts;
use crate::slurm::have_same_files;
use crate::tools::Tools;
use crate::wire::{
    Access, Below, Checked, HostState, Input, Job, Join, Output, Process, Rehearsal, Run, Sink,
    Source, StageCall, Stdio, View,
};

/// A folder that anything may use for temporary files.
const TEMPORARY: &str = "/tmp";

/// Linux' number of the limit on the length of files.
const FILE_SIZE: u32 = 1;

/// A part of a group: what one host does.
#[derive(Clone, PartialEq, Debug)]
pub struct Leg {
    /// The host's place among those that are known.
    pub host: usize,
    /// What it does; the number is given by who sends it.
    pub job: Job,
    /// Of each process, which of the group's stages it is.
    pub stage_of: Vec<usize>,
    /// Of each join, the stage that it reads for or writes for as that stage's standard input (0) or output (1), if it does.
    pub descriptor_of: Vec<Option<(usize, usize)>>,
}

/// A stream of a leg, by the number that it has there.
pub type Stream = (usize, u32);

/// A stage, as its helper stands for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Role {
    /// The streams that end in the helper; the first of them has the number 1 there, and so on.
    pub streams: Vec<Stream>,
    /// As in [`crate::wire::Standing`].
    pub stdin: Option<u32>,
    /// The same.
    pub stdout: Output,
    /// The same.
    pub stderr: Output,
    /// The same.
    pub files: Vec<(u32, Vec<u8>)>,
    /// How the statuses of its processes become one.
    pub status: Status,
    /// What its processes read is its standard input: that is left where they left it.
    pub moves_input: bool,
    /// It is told by an error that nobody reads what it prints, and says so: its processes, if they are several, are ended by SIGPIPE instead.
    pub ignores_pipe: bool,
    /// Its messages go where its output goes, in one order, which several processes do not have: none of them may complain.
    pub is_silent: bool,
    /// It is several processes that run a program (awk, sed, jq), whose messages tell which record of which file they are about: one process would tell
    /// another one.
    pub counts_records: bool,
}

impl Role {
    fn stream(&mut self, stream: Stream) -> u32 {
        self.streams.push(stream);
        self.streams.len() as u32
    }
}

/// What is to be done for a group.
#[derive(Clone, PartialEq, Debug)]
pub struct Work {
    /// The hosts' parts.
    pub legs: Vec<Leg>,
    /// The one where all comes together, and which alone may leave something behind.
    pub last: Option<usize>,
    /// The group's stages that have helpers waiting.
    pub roles: Vec<Role>,
    /// Streams from one host to another.
    pub relays: Vec<(Stream, Stream)>,
    /// It may be run again here from the beginning.
    pub again: bool,
    /// The stage whose processes must all end well: what they print is put together by what is said in it, and of one that failed nobody knows what
    /// that is worth.
    pub strict: Option<usize>,
}

/// The stages of a group that do not run as the shell started them.
pub fn stages(group: &Group) -> std::ops::Range<usize> {
    match group.place {
        At::Here => group.stages.start..group.lanes_end,
        At::Host(_) => group.stages.clone(),
    }
}

/// Which stages of a plan run elsewhere.
pub fn is_away(plan: &Plan, stage: usize) -> bool {
    plan.groups
        .iter()
        .any(|group| stages(group).contains(&stage))
}

/// What a group comes to. `number` gives a stream that has no other name yet on a host.
///
/// # Errors
/// Why it cannot be done, for people.
pub fn work(
    calls: &[StageCall],
    group: &Group,
    known: &[HostState],
    tools: &Tools,
    number: &mut dyn FnMut(usize) -> u32,
) -> Result<Work, String> {
    let first = group.stages.start;
    let count = stages(group).len();
    let has_lanes = group.lanes.len() > 1;
    let mut making = Making {
        calls,
        group,
        known,
        tools,
        number,
        legs: Vec::new(),
        pipes: HashMap::new(),
        roles: vec![Role::default(); count],
        errors: vec![Vec::new(); count],
        relays: Vec::new(),
        is_doubtful: group.is_doubtful
            || has_lanes && calls[first..group.lanes_end].iter().any(ignores_pipe),
    };
    for (stage, role) in making.roles.iter_mut().enumerate() {
        role.status = group.statuses.get(stage).copied().unwrap_or_default();
        let call = &calls[first + stage];
        let is_cut = has_lanes && first + stage < group.lanes_end;
        role.is_silent = is_cut && call.is_merged;
        let has_program = || facts::nest_of(call).is_ok_and(|nest| nest.call.of.program.is_some());
        role.counts_records = is_cut && has_program();
        role.stdout.holds_back = role.is_silent;
    }
    let mut outputs = Vec::new();
    for lane in &group.lanes {
        outputs.push(making.lane(lane)?);
    }
    let root = match (&group.combine, outputs.as_slice()) {
        (None, [only]) => Root::One(*only),
        (Some(combining), _) => making.root(&combining.tree, &combining.combiner, &outputs)?,
        (None, _) => return Err("lanes without a way to put them together".into()),
    };
    match (root, group.place) {
        (Root::Parts(edges), _) => {
            let how = group.combine.as_ref().map(|of| of.combiner.clone());
            making.written_by(group.lanes_end - 1 - first, &edges, how);
        }
        (Root::One(edge), At::Host(host)) => making.rest(edge, host)?,
        (Root::One(edge), At::Here) => making.end(edge, group.lanes_end - 1)?,
    }
    making.join_errors();
    making.divide();
    let is_pure = |stage: usize| calls[stage].place.as_ref().is_ok_and(|place| place.is_pure);
    let reads_helper = making.roles.iter().any(|role| role.stdin.is_some());
    let writes_file = |leg: &Leg| {
        let processes = leg.job.processes.iter().map(|process| &process.stdout);
        let mut sinks = processes.chain(leg.job.joins.iter().map(|join| &join.into));
        sinks.any(|sink| matches!(sink, Sink::File { .. }))
    };
    let again = stages(group).all(is_pure) && !reads_helper && !making.legs.iter().any(writes_file);
    if !again && making.is_doubtful {
        return Err("its lanes may have to be given up, and it cannot be begun again".into());
    }
    // What comes together comes at the end, and only there something may be left behind.
    let place = match group.place {
        At::Host(host) => Some(host),
        At::Here => None,
    };
    Ok(making.done(place, again))
}

fn ignores_pipe(call: &StageCall) -> bool {
    call.limits.ignored.contains(&nix::libc::SIGPIPE)
}

/// What comes out of a process or a join of a leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    Process(usize, usize),
    Join(usize, usize),
}

impl Edge {
    fn leg(self) -> usize {
        match self {
            Edge::Process(leg, _) | Edge::Join(leg, _) => leg,
        }
    }
}

/// What comes out of all lanes.
enum Root {
    One(Edge),
    /// These, which the helper puts together.
    Parts(Vec<Edge>),
}

struct Making<'a> {
    calls: &'a [StageCall],
    group: &'a Group,
    known: &'a [HostState],
    tools: &'a Tools,
    number: &'a mut dyn FnMut(usize) -> u32,
    legs: Vec<Leg>,
    /// How many pipes a leg has.
    pipes: HashMap<usize, u32>,
    roles: Vec<Role>,
    /// The processes of each stage that have errors of their own, in the order of the lanes.
    errors: Vec<Vec<Edge>>,
    relays: Vec<(Stream, Stream)>,
    /// It may have to be run again from the beginning.
    is_doubtful: bool,
}

impl Making<'_> {
    fn leg(&mut self, host: usize) -> usize {
        if let Some(at) = self.legs.iter().position(|leg| leg.host == host) {
            return at;
        }
        self.legs.push(Leg {
            host,
            job: Job {
                number: 0,
                processes: Vec::new(),
                joins: Vec::new(),
                rehearsal: None,
                checks: Vec::new(),
            },
            stage_of: Vec::new(),
            descriptor_of: Vec::new(),
        });
        self.legs.len() - 1
    }

    fn pipe(&mut self, leg: usize) -> u32 {
        let count = self.pipes.entry(leg).or_default();
        *count += 1;
        *count
    }

    fn stream(&mut self, leg: usize) -> u32 {
        (self.number)(self.legs[leg].host)
    }

    /// The stages of a lane.
    fn lane(&mut self, lane: &Lane) -> Result<Edge, String> {
        let leg = self.leg(lane.host);
        let mut before = None;
        let mut processes = Vec::new();
        for stage in self.group.stages.start..self.group.lanes_end {
            let mut words = if before.is_none() {
                lane.words.clone()
            } else {
                self.calls[stage].words.clone()
            };
            let mut moved: Vec<Moved> = (lane.moved.iter())
                .filter(|moved| moved.stage == stage)
                .cloned()
                .collect();
            let combiner = self.group.combine.as_ref().map(|of| &of.combiner);
            if let Some(combiner) = combiner.filter(|_| stage + 1 == self.group.lanes_end) {
                words = combiner.lane_words(&words);
                let shift = combiner.lane_shift();
                for (word, _) in moved.iter_mut().filter_map(|moved| moved.file.as_mut()) {
                    *word += shift;
                }
            }
            let stdin = match before {
                Some(edge) => self.source(edge, leg),
                None => self.beginning(stage, leg, &lane.part, &moved)?,
            };
            let edge = self.process(stage, leg, words, stdin, &moved)?;
            if let Edge::Process(_, at) = edge {
                processes.push(at as u32);
            }
            before = Some(self.heard(lane, leg, stage, edge)?);
        }
        let how = self.group.combine.as_ref().map(|of| of.combiner.clone());
        // What only the helper can give cannot be given twice.
        let own = &self.legs[leg].job.processes;
        let is_alone = processes
            .iter()
            .all(|&at| own[at as usize].inputs.is_empty());
        if let (Some(how @ Combiner::Sums { .. }), Part::Lines { .. }, true) =
            (how, &lane.part, is_alone)
        {
            let rehearsal = Rehearsal { processes, how };
            self.legs[leg].job.rehearsal.get_or_insert(rehearsal);
        }
        before.ok_or_else(|| "a lane without a stage".to_owned())
    }

    /// What a stage of a lane prints, if nothing shows that one process would print something else: it may have to be text, and may have to say nothing.
    fn heard(&mut self, lane: &Lane, leg: usize, stage: usize, edge: Edge) -> Result<Edge, String> {
        let is_last = stage + 1 == self.group.lanes_end;
        let combiner = self.group.combine.as_ref().map(|of| &of.combiner);
        let is_text = is_last && combiner == Some(&Combiner::Text);
        let member = stage - self.group.stages.start;
        let is_cut =
            self.group.lines_looked_at && member == 0 && self.group.lanes.last() != Some(lane);
        if !is_text && !is_cut && !self.roles[member].is_silent {
            return Ok(edge);
        }
        // It has no end before it is known whether what it has read is text.
        let clean = if is_text {
            self.inputs(lane)?
        } else {
            Vec::new()
        };
        let parts = vec![self.source(edge, leg)];
        // Nor before it is known whether it has complained, as of what it has read that it is none.
        let must_be_quiet = is_text || self.roles[member].is_silent;
        let complains = must_be_quiet && self.errors[member].pop_if(|last| *last == edge).is_some();
        let quiet = complains.then(|| {
            let pipe = self.pipe(leg);
            self.errors_to(edge, Sink::Pipe(pipe));
            Source::Pipe(pipe)
        });
        let how = match (is_text, is_cut) {
            (true, _) => Combiner::Text,
            (_, true) => Combiner::Lines,
            _ => Combiner::Concat,
        };
        let join = Join {
            clean,
            quiet,
            ..Join::of(how, parts)
        };
        Ok(self.join(leg, join, Some((member, 1))))
    }

    /// The files, or the lines of one, that a lane's first stage reads on its host.
    fn inputs(&self, lane: &Lane) -> Result<Vec<Source>, String> {
        let stage = self.group.stages.start;
        match &lane.part {
            Part::All => Err("a lane that is no part".into()),
            Part::Lines { file, from, to } => Ok(vec![self.lines(stage, *file, *from, *to)?]),
            Part::Operands(words) => {
                let of_word = |word: &usize| {
                    let name = self.calls[stage].words.get(*word);
                    let path = self.named(stage, name.ok_or("a word that is not there")?)?;
                    Ok(Source::File { path, from: 0 })
                };
                words.iter().map(of_word).collect()
            }
        }
    }

    /// Lines of a file.
    fn lines(
        &self,
        stage: usize,
        file: Option<(usize, usize)>,
        from: u64,
        to: Option<u64>,
    ) -> Result<Source, String> {
        let call = &self.calls[stage];
        let (path, begin) = match file {
            Some((word, from)) => {
                let name = call.words.get(word).and_then(|word| word.get(from..));
                (
                    self.named(stage, name.ok_or("a name that is not there")?)?,
                    0,
                )
            }
            None => match &call.stdio[0] {
                Stdio::There { path, at, .. } => (path.clone(), *at),
                _ => return Err("lines of something that is no file".into()),
            },
        };
        Ok(Source::Lines {
            path,
            begin,
            from,
            to,
        })
    }

    /// The stages behind the lanes.
    fn rest(&mut self, lanes: Edge, host: usize) -> Result<(), String> {
        let mut edge = lanes;
        for stage in self.group.lanes_end..self.group.stages.end {
            let leg = self.leg(host);
            let stdin = self.source(edge, leg);
            let moved: Vec<Moved> = (self.group.moved.iter())
                .filter(|moved| moved.stage == stage)
                .cloned()
                .collect();
            let words = self.calls[stage].words.clone();
            edge = self.process(stage, leg, words, stdin, &moved)?;
        }
        self.end(edge, self.group.stages.end - 1)
    }

    /// Where the first stage of a lane reads.
    fn beginning(
        &mut self,
        stage: usize,
        leg: usize,
        part: &Part,
        moved: &[Moved],
    ) -> Result<Source, String> {
        let call = &self.calls[stage];
        let host = self.host_name(leg);
        if let Part::Lines { file, from, to } = part {
            self.roles[stage - self.group.stages.start].moves_input = file.is_none();
            return self.lines(stage, *file, *from, *to);
        }
        let reads = call.place.as_ref().is_ok_and(|place| place.reads_stdin);
        Ok(match &call.stdio[0] {
            _ if !reads => Source::Null,
            Stdio::Null => Source::Null,
            Stdio::There {
                host: of, path, at, ..
            } if have_same_files(of, host) => {
                self.roles[stage - self.group.stages.start].moves_input = true;
                Source::File {
                    path: path.clone(),
                    from: *at,
                }
            }
            Stdio::There { path, at, .. } => {
                let from_host = moved.iter().find_map(|moved| match moved.from {
                    At::Host(from) if moved.file.is_none() => Some(from),
                    _ => None,
                });
                let from = from_host.ok_or("its input is on another host")?;
                let member = stage - self.group.stages.start;
                self.fetch(from, path.clone(), *at, leg, Some((member, 0)))
            }
            _ => {
                let number = self.stream(leg);
                let role = &mut self.roles[stage - self.group.stages.start];
                role.stdin = Some(role.stream((leg, number)));
                Source::Stream(number)
            }
        })
    }

    /// A file of another host, sent to a leg.
    fn fetch(
        &mut self,
        from: usize,
        path: Vec<u8>,
        at: u64,
        to: usize,
        descriptor: Option<(usize, usize)>,
    ) -> Source {
        let leg = self.leg(from);
        let join = Join::of(Combiner::Concat, vec![Source::File { path, from: at }]);
        let edge = self.join(leg, join, descriptor);
        self.source(edge, to)
    }

    fn join(&mut self, leg: usize, join: Join, descriptor: Option<(usize, usize)>) -> Edge {
        let of = &mut self.legs[leg];
        of.job.joins.push(join);
        of.descriptor_of.push(descriptor);
        Edge::Join(leg, of.job.joins.len() - 1)
    }

    fn host_name(&self, leg: usize) -> &str {
        &self.known[self.legs[leg].host].name
    }

    /// A process for a stage.
    fn process(
        &mut self,
        stage: usize,
        leg: usize,
        words: Vec<Vec<u8>>,
        stdin: Source,
        moved: &[Moved],
    ) -> Result<Edge, String> {
        let mut inputs = Vec::new();
        for moved in moved {
            let Some((word, from)) = moved.file else {
                continue;
            };
            let text = words.get(word).ok_or("a word that is not there")?;
            let name = text.get(from..).ok_or("a name that is not there")?;
            let path = self.named(stage, name)?;
            let source = match moved.from {
                At::Host(host) => self.fetch(host, path, 0, leg, None),
                At::Here => {
                    let number = self.stream(leg);
                    let role = &mut self.roles[stage - self.group.stages.start];
                    let stream = role.stream((leg, number));
                    role.files.push((stream, path));
                    Source::Stream(number)
                }
            };
            inputs.push(Input {
                word: word as u32,
                from: from as u32,
                source,
            });
        }
        self.begin(stage, leg, words, stdin, inputs)
    }

    /// The path of a file that a stage names.
    fn named(&self, stage: usize, name: &[u8]) -> Result<Vec<u8>, String> {
        let place = self.calls[stage].place.as_ref().map_err(Clone::clone)?;
        let programs = place.programs.iter().filter_map(|(_, file)| file.as_ref());
        let path = join_path(&self.calls[stage].folder, name);
        let mut files = place.files.iter().chain(programs);
        files
            .find(|file| file.path == path)
            .map(|file| file.path.clone())
            .ok_or_else(|| "a file whose path is not known".to_owned())
    }

    fn begin(
        &mut self,
        stage: usize,
        leg: usize,
        words: Vec<Vec<u8>>,
        stdin: Source,
        inputs: Vec<Input>,
    ) -> Result<Edge, String> {
        let call = &self.calls[stage];
        let place = call.place.as_ref().map_err(Clone::clone)?;
        let program =
            Path::new(std::str::from_utf8(&call.program).map_err(|_| "a program's name")?);
        let tool = self
            .tools
            .tool(program, place.version.as_ref())
            .ok_or("the command cannot be read here")?;
        let runs = place.runs.iter().map(|run| {
            let file = Path::new(std::str::from_utf8(&run.program).ok()?);
            Some(Run {
                name: run.name.clone(),
                path: run.path.clone(),
                tool: self.tools.tool(file, run.version.as_ref())?,
            })
        });
        let runs: Option<Vec<Run>> = runs.collect();
        let runs = runs.ok_or("a command that it runs cannot be read here")?;
        let host = self.host_name(leg).to_owned();
        // What it is told of is where the stage may look that tells it.
        let giver = self
            .group
            .listed
            .iter()
            .find(|listed| listed.stage == stage);
        let giver = giver.and_then(|listed| self.calls[listed.by].place.as_ref().ok());
        let mut access = vec![Access {
            path: TEMPORARY.into(),
            write: true,
        }];
        let told_of = giver.map_or(&[][..], |giver| &giver.touched);
        let touched = place.touched.iter().chain(told_of);
        for touched in touched.filter(|touched| have_same_files(&touched.host, &host)) {
            let path = &touched.checked.path;
            access.push(Access {
                path: path.clone(),
                write: touched.write,
            });
            // A file that is written may be made anew beside the old one.
            if touched.write {
                let above = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                access.push(Access {
                    path: path[..above.max(1)].to_vec(),
                    write: true,
                });
            }
        }
        let member = stage - self.group.stages.start;
        let is_merged = call.is_merged && !self.roles[member].is_silent;
        let process = Process {
            words,
            environment: call.environment.clone(),
            folder: far_folder(
                &call.folder,
                (giver.unwrap_or(place).hosts.iter()).find(|(name, _)| *name == host),
            ),
            limits: call.limits.clone(),
            stdin,
            stdout: Sink::Null,
            stderr: (!is_merged).then_some(Sink::Null),
            inputs,
            tool,
            runs,
            locales: self.tools.needed(place.locales.iter().map(String::as_str)),
            access: Some(access),
            changes: call.changes.clone(),
        };
        let of = &mut self.legs[leg];
        of.job.processes.push(process);
        of.stage_of.push(member);
        let edge = Edge::Process(leg, of.job.processes.len() - 1);
        if !is_merged {
            self.errors[member].push(edge);
        }
        Ok(edge)
    }

    fn sink(&mut self, edge: Edge) -> &mut Sink {
        match edge {
            Edge::Process(leg, at) => &mut self.legs[leg].job.processes[at].stdout,
            Edge::Join(leg, at) => &mut self.legs[leg].job.joins[at].into,
        }
    }

    /// What comes out of something, to be read by something on a leg.
    fn source(&mut self, edge: Edge, leg: usize) -> Source {
        let from = edge.leg();
        if from == leg {
            let pipe = self.pipe(leg);
            *self.sink(edge) = Sink::Pipe(pipe);
            return Source::Pipe(pipe);
        }
        let (sent, taken) = (self.stream(from), self.stream(leg));
        *self.sink(edge) = Sink::Stream(sent);
        self.relays.push(((from, sent), (leg, taken)));
        Source::Relay(taken)
    }

    /// What the lanes' outputs become by a tree.
    fn root(&mut self, tree: &Tree, how: &Combiner, lanes: &[Edge]) -> Result<Root, String> {
        let Tree::At(place, parts) = tree else {
            return Err("lanes that come together nowhere".into());
        };
        let mut edges = Vec::new();
        for part in parts {
            edges.push(match part {
                Tree::Lane(lane) => *lanes.get(*lane).ok_or("a lane that is not there")?,
                Tree::At(..) => match self.root(part, how, lanes)? {
                    Root::One(edge) => edge,
                    Root::Parts(_) => return Err("a part that comes together here".into()),
                },
            });
        }
        match (place, edges.as_slice()) {
            (_, [only]) => Ok(Root::One(*only)),
            (At::Here, _) => Ok(Root::Parts(edges)),
            (At::Host(host), _) => self.joined(*host, how, &edges).map(Root::One),
        }
    }

    /// Outputs put together on a host.
    fn joined(&mut self, host: usize, how: &Combiner, edges: &[Edge]) -> Result<Edge, String> {
        let leg = self.leg(host);
        let stage = self.group.lanes_end - 1;
        let parts: Vec<Source> = edges.iter().map(|edge| self.source(*edge, leg)).collect();
        let output = Some((stage - self.group.stages.start, 1));
        match how {
            Combiner::Merge(words) => {
                let mut all = words.clone();
                let inputs = parts.into_iter().map(|source| {
                    all.push(Vec::new());
                    Input {
                        word: all.len() as u32 - 1,
                        from: 0,
                        source,
                    }
                });
                let inputs = inputs.collect();
                self.begin(stage, leg, all, Source::Null, inputs)
            }
            Combiner::Again(words) | Combiner::Sums { words, .. } => {
                let input = match how {
                    Combiner::Sums { .. } => how.clone(),
                    _ => Combiner::Concat,
                };
                let join = Join::of(input, parts);
                let edge = self.join(leg, join, output);
                let stdin = self.source(edge, leg);
                self.begin(stage, leg, words.clone(), stdin, Vec::new())
            }
            how => {
                let join = Join::of(how.clone(), parts);
                Ok(self.join(leg, join, output))
            }
        }
    }

    /// Where the last output goes.
    fn end(&mut self, edge: Edge, stage: usize) -> Result<(), String> {
        let leg = edge.leg();
        let host = self.host_name(leg).to_owned();
        let member = stage - self.group.stages.start;
        let is_bounded = |call: &StageCall| call.limits.soft.iter().any(|(of, _)| *of == FILE_SIZE);
        match &self.calls[stage].stdio[1] {
            Stdio::There {
                host: of,
                path,
                at,
                append,
                ..
                // A limit is the process'; an agent that writes has none.
            } if have_same_files(of, &host)
                && !self.is_doubtful
                && !(matches!(edge, Edge::Join(..)) && is_bounded(&self.calls[stage])) =>
            {
                *self.sink(edge) = Sink::File {
                    path: path.clone(),
                    at: (!append).then_some(*at),
                };
                if let Edge::Join(leg, join) = edge {
                    self.legs[leg].descriptor_of[join] = Some((member, 1));
                }
            }
            Stdio::Null => {}
            _ => self.written_by(member, &[edge], None),
        }
        Ok(())
    }

    /// Outputs that a helper writes.
    fn written_by(&mut self, member: usize, edges: &[Edge], how: Option<Combiner>) {
        for edge in edges {
            let number = self.stream(edge.leg());
            *self.sink(*edge) = Sink::Stream(number);
            let role = &mut self.roles[member];
            let stream = role.stream((edge.leg(), number));
            role.stdout.streams.push(stream);
        }
        self.roles[member].stdout.how = how;
    }

    /// The errors of a stage's processes, in the order of the lanes: those of one host that follow each other are put together there.
    fn join_errors(&mut self) {
        for member in 0..self.errors.len() {
            let edges = std::mem::take(&mut self.errors[member]);
            for run in edges.chunk_by(|a, b| a.leg() == b.leg()) {
                let Some(leg) = run.first().map(|edge| edge.leg()) else {
                    continue;
                };
                let number = self.stream(leg);
                if let [only] = run {
                    self.errors_to(*only, Sink::Stream(number));
                } else {
                    let mut parts = Vec::new();
                    for edge in run {
                        let pipe = self.pipe(leg);
                        self.errors_to(*edge, Sink::Pipe(pipe));
                        parts.push(Source::Pipe(pipe));
                    }
                    let join = Join {
                        into: Sink::Stream(number),
                        ..Join::of(Combiner::Concat, parts)
                    };
                    self.join(leg, join, None);
                }
                let role = &mut self.roles[member];
                let stream = role.stream((leg, number));
                role.stderr.streams.push(stream);
            }
            let several = self.roles[member].stderr.streams.len() > 1;
            self.roles[member].stderr.how = several.then_some(Combiner::Concat);
        }
    }

    /// Of processes that are one stage each would complain that nobody reads.
    fn divide(&mut self) {
        for (member, role) in self.roles.iter_mut().enumerate() {
            let own = |leg: &Leg| leg.stage_of.iter().filter(|of| **of == member).count();
            if self.legs.iter().map(own).sum::<usize>() < 2 {
                continue;
            }
            for leg in &mut self.legs {
                let processes = leg.job.processes.iter_mut().zip(&leg.stage_of);
                for (process, _) in processes.filter(|(_, of)| **of == member) {
                    let ignored = &mut process.limits.ignored;
                    role.ignores_pipe |= ignored.contains(&nix::libc::SIGPIPE);
                    ignored.retain(|signal| *signal != nix::libc::SIGPIPE);
                }
            }
        }
    }

    fn errors_to(&mut self, edge: Edge, sink: Sink) {
        if let Edge::Process(leg, at) = edge {
            self.legs[leg].job.processes[at].stderr = Some(sink);
        }
    }

    fn done(mut self, last: Option<usize>, again: bool) -> Work {
        for leg in &mut self.legs {
            let name = &self.known[leg.host].name;
            for stage in self.group.stages.clone() {
                for stdio in &self.calls[stage].stdio {
                    if let Stdio::There {
                        path, seen, host, ..
                    } = stdio
                        && have_same_files(host, name)
                    {
                        leg.job.checks.push(Checked {
                            path: path.clone(),
                            seen: *seen,
                            ends_line: false,
                            below: Below::Anything,
                            depth: None,
                        });
                    }
                }
                // What is sent to another host is looked at, too.
                let place = self.calls[stage].place.as_ref();
                let touched = place.map_or(&[][..], |place| &place.touched);
                let mut given = self.group.listed.iter();
                let given = given.find(|listed| listed.by == stage);
                let own = (touched.iter()).filter(|touched| have_same_files(&touched.host, name));
                leg.job.checks.extend(own.map(|touched| {
                    let mut checked = touched.checked.clone();
                    if let Some(listed) = given {
                        checked.depth = listed.depth;
                        checked.below = if listed.plain {
                            Below::Plain
                        } else {
                            Below::Inside
                        };
                    }
                    checked
                }));
            }
            if self.group.line_ends {
                let first = self.calls[self.group.stages.start].place.as_ref();
                let files = first.map_or(&[][..], |place| &place.files);
                let before = files.split_last().map_or(&[][..], |(_, before)| before);
                for checked in &mut leg.job.checks {
                    checked.ends_line = before.iter().any(|file| file.path == checked.path);
                }
            }
            // Of several that are of one file, the strictest counts.
            let all = leg.job.checks.clone();
            for checked in &mut leg.job.checks {
                let same = all.iter().filter(|other| other.path == checked.path);
                let same: Vec<&Checked> = same.filter(|of| of.below != Below::Anything).collect();
                checked.below = same.iter().map(|of| of.below).max().unwrap_or_default();
                let depths = same.iter().map(|of| of.depth);
                checked.depth = depths.reduce(|a, b| Some(a?.max(b?))).flatten();
            }
            let mut seen = Vec::new();
            leg.job.checks.retain(|checked| {
                let is_new = !seen.contains(&checked.path);
                seen.push(checked.path.clone());
                is_new
            });
        }
        let is_strict = self.group.combine.as_ref().is_some_and(|combining| {
            let how = &combining.combiner;
            !how.only_passes() && !matches!(how, Combiner::Sum { .. })
        });
        Work {
            strict: is_strict.then_some(self.group.lanes_end - 1 - self.group.stages.start),
            last: self.legs.iter().position(|leg| Some(leg.host) == last),
            legs: self.legs,
            roles: self.roles,
            relays: self.relays,
            again,
        }
    }
}

/// A name in a folder.
fn join_path(folder: &[u8], name: &[u8]) -> Vec<u8> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name));
    path.into_os_string().into_vec()
}

/// The folder that a command is to be in on a host: the same, or, if the host has nothing to do with that, any.
fn far_folder(folder: &[u8], views: Option<&(String, Vec<View>)>) -> Vec<u8> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let here = Path::new(OsStr::from_bytes(folder));
    let is_there = views.is_some_and(|(_, views)| {
        views.iter().any(|view| {
            let at = Path::new(OsStr::from_bytes(&view.at));
            here.starts_with(at) || at.starts_with(here)
        })
    });
    if is_there {
        folder.to_vec()
    } else {
        b"/".to_vec()
    }
}
