//! In which order helpers are sent what comes from hosts, and who waits for whom.
//!
//! Helpers write to places that may be one: a terminal, a pipe that both outputs lead to. Whoever reads there must find messages among the output
//! where one process after the other would have put them. Agents send what commands write in the order in which they wrote it; each helper writes
//! what it is sent in that order, too; between helpers, and between the two outputs of one, it is kept by asking: an empty piece of data is
//! a question, and it comes back when all before it is written.
//!
//! The invariant: between a message and what came before or behind it there is an answer, unless one did not come in time.

use std::collections::VecDeque;

use shell_plan::plan::Combiner;

use super::Role;
use crate::wire::{Frame, FromAgent, PIECE};

/// What comes for helpers.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// From an agent's leg, for whomever.
    Frame(usize, Frame),
    /// The same.
    Message(usize, FromAgent),
    /// For the helper of this member.
    Helper(usize, Frame),
}

/// How many bytes of messages are held back, at most.
const HELD: usize = 64 << 10;

/// A stream whose bytes a helper puts into its output.
struct Part {
    stream: u32,
    has_some: bool,
    has_ended: bool,
}

/// What is known of a helper.
struct Writer {
    /// What its output is made of, in their order.
    parts: Vec<Part>,
    /// Whether all of these must have something before it can write.
    needs_each: bool,
    /// Which of its streams are messages.
    messages: Vec<u32>,
    /// The stream by which it can be asked for its output (0) and messages (1): of several that become one nobody knows when they are written.
    asked_by: [Option<u32>; 2],
    /// Whether it was sent output or messages of which it has not been asked whether they are written.
    unasked: [bool; 2],
    /// How many questions it has not answered.
    asked: usize,
    /// It answers no more: one whose output nobody reads stops to write.
    is_mute: bool,
}

/// The order of what helpers are sent.
pub struct Order {
    writers: Vec<Writer>,
    /// Whether helpers know that they stand for something elsewhere.
    has_begun: bool,
    /// What has come, and was not taken yet.
    waiting: VecDeque<Told>,
    /// What is held back: messages, and that somebody has ended. None: nothing is any more.
    held: Option<Vec<(usize, Frame)>>,
    held_bytes: usize,
    /// Whether all waits for answers: a message has come.
    is_stopped: bool,
    /// How many questions there were.
    questions: u64,
}

impl Order {
    /// Of helpers that stand for these. `holds`: messages are held back until something is given.
    pub fn new<'a>(roles: impl Iterator<Item = &'a Role>, holds: bool) -> Order {
        let part = |&stream: &u32| Part {
            stream,
            has_some: false,
            has_ended: false,
        };
        let writer = |role: &Role| Writer {
            parts: role.stdout.streams.iter().map(part).collect(),
            needs_each: (role.stdout.how.as_ref()).is_some_and(Combiner::needs_each),
            messages: role.stderr.streams.clone(),
            asked_by: [&role.stdout, &role.stderr].map(|output| {
                let only = <[u32; 1]>::try_from(output.streams.as_slice());
                only.ok()
                    .filter(|_| output.how.is_none())
                    .map(|[only]| only)
            }),
            unasked: [false; 2],
            asked: 0,
            is_mute: false,
        };
        Order {
            writers: roles.map(writer).collect(),
            has_begun: false,
            waiting: VecDeque::new(),
            held: holds.then(Vec::new),
            held_bytes: 0,
            is_stopped: false,
            questions: 0,
        }
    }

    /// Helpers know what they stand for.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Something has come. Messages that follow each other become one: each is waited for.
    pub fn push(&mut self, told: Told) {
        if let Told::Frame(leg, Frame::Data(stream, bytes)) = &told
            && let Some(Told::Frame(of, Frame::Data(last, before))) = self.waiting.back_mut()
            && (*of, *last) == (*leg, *stream)
            && before.len() + bytes.len() <= PIECE
        {
            before.extend_from_slice(bytes);
            return;
        }
        self.waiting.push_back(told);
    }

    /// This is to be taken again before all else.
    pub fn put_back(&mut self, told: Told) {
        self.waiting.push_front(told);
    }

    /// What is to be taken next; none: what has come waits, or nothing has.
    pub fn next(&mut self) -> Option<Told> {
        self.is_stopped &= self.is_asking();
        if !self.has_begun || self.is_stopped {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Whether a stream of a member is messages.
    pub fn is_message(&self, member: usize, stream: u32) -> bool {
        self.writers[member].messages.contains(&stream)
    }

    /// Whether a helper can write something of its output as soon as it has this frame, too: parts of lanes may have come, and their turn has not.
    pub fn gives(&mut self, member: usize, frame: &Frame) -> bool {
        let writer = &mut self.writers[member];
        let (stream, has_some) = match frame {
            Frame::Data(stream, bytes) => (*stream, !bytes.is_empty()),
            Frame::End(stream) => (*stream, false),
            _ => return false,
        };
        let Some(part) = writer.parts.iter_mut().find(|part| part.stream == stream) else {
            return false;
        };
        part.has_some |= has_some;
        part.has_ended |= !has_some;
        let turn = writer.parts.iter().position(|part| !part.has_ended);
        let reached = &writer.parts[..turn.map_or(writer.parts.len(), |turn| turn + 1)];
        if writer.needs_each {
            let is_ready = |part: &Part| part.has_some || part.has_ended;
            writer.parts.iter().all(is_ready) && writer.parts.iter().any(|part| part.has_some)
        } else {
            reached.iter().any(|part| part.has_some)
        }
    }

    /// Whether messages are held back.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Whether a member's messages are held back.
    pub fn holds(&self, member: usize) -> bool {
        let mut held = self.held.iter().flatten();
        held.any(|(of, frame)| *of == member && matches!(frame, Frame::Data(..)))
    }

    /// Holds a frame back; gives it back if nothing is held back any more.
    pub fn hold(&mut self, member: usize, frame: Frame) -> Option<Frame> {
        let Some(held) = &mut self.held else {
            return Some(frame);
        };
        if let Frame::Data(_, bytes) = &frame {
            self.held_bytes += bytes.len();
        }
        held.push((member, frame));
        None
    }

    /// Whether as much is held back as may be.
    pub fn holds_enough(&self) -> bool {
        self.held_bytes >= HELD
    }

    /// What is held back is taken next, and nothing is held back any more.
    pub fn release(&mut self) {
        for (member, frame) in self.held.take().into_iter().flatten().rev() {
            self.waiting.push_front(Told::Helper(member, frame));
        }
    }

    /// Sends a helper a frame, or has it wait for those who must have written before; either may take questions.
    pub fn tell(&mut self, member: usize, frame: Frame, send: &mut dyn FnMut(usize, Frame)) {
        let (Frame::Data(stream, _) | Frame::End(stream)) = frame else {
            send(member, frame);
            return;
        };
        let is_message = self.is_message(member, stream);
        let side = usize::from(is_message);
        if matches!(frame, Frame::End(_)) {
            // Nobody answers for it behind that.
            self.ask(member, side, send);
            send(member, frame);
            return;
        }
        if is_message {
            for other in 0..self.writers.len() {
                self.ask(other, 0, send);
                self.ask(other, 1, send);
            }
            self.is_stopped = true;
            if self.is_asking() {
                self.put_back(Told::Helper(member, frame));
                return;
            }
        }
        self.writers[member].unasked[side] = true;
        send(member, frame);
        if is_message {
            self.ask(member, side, send);
        }
    }

    fn ask(&mut self, member: usize, side: usize, send: &mut dyn FnMut(usize, Frame)) {
        let writer = &mut self.writers[member];
        if !std::mem::take(&mut writer.unasked[side]) || writer.is_mute {
            return;
        }
        if let Some(stream) = writer.asked_by[side] {
            writer.asked += 1;
            self.questions += 1;
            send(member, Frame::Data(stream, Vec::new()));
        }
    }

    /// A helper has answered.
    pub fn answered(&mut self, member: usize) {
        let writer = &mut self.writers[member];
        writer.asked = writer.asked.saturating_sub(1);
    }

    /// A helper writes no more, whatever it is asked.
    pub fn falls_silent(&mut self, member: usize) {
        let writer = &mut self.writers[member];
        writer.is_mute = true;
        writer.asked = 0;
    }

    /// Whether something waits for somebody's answer.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped && self.is_asking()
    }

    fn is_asking(&self) -> bool {
        self.writers.iter().any(|writer| writer.asked > 0)
    }

    /// How many questions there were: if there are no more after a while, the last one has not been answered all that time.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    /// Nobody is waited for.
    pub fn go_on(&mut self) {
        for writer in &mut self.writers {
            writer.asked = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Output;
    use shell_plan::annotation::Status;

    const OUTPUT: u32 = 1;
    const MESSAGES: u32 = 2;

    fn role() -> Role {
        let output = |stream| Output {
            streams: vec![stream],
            ..Output::default()
        };
        Role {
            streams: Vec::new(),
            stdin: None,
            stdout: output(OUTPUT),
            stderr: output(MESSAGES),
            files: Vec::new(),
            status: Status::Highest,
            moves_input: false,
            ignores_pipe: false,
            is_silent: false,
            counts_records: false,
        }
    }

    /// Two helpers, and all that they were sent: `a` and `b` with a piece of output `o`, of messages `m`, an end `.` or a question `?`.
    struct Rig {
        order: Order,
        sent: String,
    }

    impl Rig {
        fn new(holds: bool) -> Rig {
            let roles = [role(), role()];
            let mut order = Order::new(roles.iter(), holds);
            order.begin();
            Rig {
                order,
                sent: String::new(),
            }
        }

        /// A member writes: legs are members, and streams are not renumbered.
        fn write(&mut self, member: usize, stream: u32, text: &str) {
            let frame = if text == "." {
                Frame::End(stream)
            } else {
                Frame::Data(stream, text.into())
            };
            self.order.push(Told::Frame(member, frame));
            self.go();
        }

        fn go(&mut self) {
            while let Some(told) = self.order.next() {
                let (Told::Frame(member, frame) | Told::Helper(member, frame)) = told else {
                    unreachable!()
                };
                let sent = &mut self.sent;
                self.order.tell(member, frame, &mut |to, frame| {
                    *sent += ["a", "b"][to];
                    *sent += &match &frame {
                        Frame::Data(of, bytes) if bytes.is_empty() => {
                            ["?o", "?m"][*of as usize - 1].to_owned()
                        }
                        Frame::Data(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
                        _ => ".".to_owned(),
                    };
                    *sent += " ";
                });
            }
        }

        fn answer(&mut self, member: usize) {
            self.order.answered(member);
            self.go();
        }

        fn sent(&mut self) -> String {
            std::mem::take(&mut self.sent).trim_end().to_owned()
        }
    }

    #[test]
    fn output_alone_is_asked_for_nothing() {
        let mut rig = Rig::new(false);
        for text in ["o", "p", "."] {
            rig.write(0, OUTPUT, text);
        }
        rig.write(1, OUTPUT, "q");
        // Only at its end, behind which nobody could; nothing waits for that.
        assert_eq!(rig.sent(), "ao ap a?o a. bq");
        assert!(!rig.order.is_stopped());
        rig.write(1, MESSAGES, "m");
        assert_eq!(rig.sent(), "b?o");
        assert!(rig.order.is_stopped());
    }

    #[test]
    fn a_message_waits_for_the_output_before_it_and_that_behind_it_for_the_message() {
        let mut rig = Rig::new(false);
        rig.write(0, OUTPUT, "o");
        rig.write(1, MESSAGES, "m");
        rig.write(0, OUTPUT, "p");
        assert_eq!(rig.sent(), "ao a?o");
        rig.answer(0);
        assert_eq!(rig.sent(), "bm b?m");
        rig.answer(1);
        assert_eq!(rig.sent(), "ap");
    }

    #[test]
    fn messages_that_wait_become_one() {
        let mut rig = Rig::new(false);
        for text in ["m", "n", "o"] {
            rig.write(0, MESSAGES, text);
        }
        assert_eq!(rig.sent(), "am a?m");
        rig.answer(0);
        assert_eq!(rig.sent(), "ano a?m");
    }

    #[test]
    fn who_writes_no_more_is_not_waited_for() {
        let mut rig = Rig::new(false);
        rig.write(0, OUTPUT, "o");
        rig.write(1, MESSAGES, "m");
        assert_eq!(rig.sent(), "ao a?o");
        rig.order.falls_silent(0);
        rig.go();
        assert_eq!(rig.sent(), "bm b?m");
        rig.answer(1);
        rig.write(0, OUTPUT, "p");
        rig.write(1, MESSAGES, "n");
        assert_eq!(rig.sent(), "ap bn b?m");
    }

    #[test]
    fn who_does_not_answer_in_time_is_not_waited_for() {
        let mut rig = Rig::new(false);
        rig.write(0, OUTPUT, "o");
        rig.write(0, MESSAGES, "m");
        let before = rig.order.questions();
        assert_eq!(rig.order.questions(), before);
        rig.order.go_on();
        rig.go();
        assert_eq!(rig.sent(), "ao a?o am a?m");
        assert!(rig.order.questions() > before);
    }

    #[test]
    fn what_is_held_back_comes_before_what_came_behind_it() {
        let mut rig = Rig::new(true);
        let frame = Frame::Data(MESSAGES, b"m".to_vec());
        assert_eq!(rig.order.hold(1, frame), None);
        assert!(rig.order.holds(1) && !rig.order.holds(0));
        rig.order
            .push(Told::Frame(0, Frame::Data(OUTPUT, b"o".to_vec())));
        rig.order.release();
        rig.go();
        assert_eq!(rig.sent(), "bm b?m");
        rig.answer(1);
        assert_eq!(rig.sent(), "ao");
        assert_eq!(
            rig.order.hold(0, Frame::End(MESSAGES)),
            Some(Frame::End(MESSAGES))
        );
    }

    #[test]
    fn what_waits_for_its_turn_is_not_given() {
        let said = |how: Combiner, frames: &[(u32, &str)]| {
            let mut role = role();
            role.stdout.streams = vec![1, 3, 4];
            role.stdout.how = Some(how);
            let mut order = Order::new([role].iter(), true);
            let gives = frames.iter().map(|&(stream, text)| {
                let frame = if text == "." {
                    Frame::End(stream)
                } else {
                    Frame::Data(stream, text.into())
                };
                order.gives(0, &frame)
            });
            gives.collect::<Vec<_>>()
        };
        let late = [(3, "o"), (4, "o"), (3, "."), (1, ".")];
        assert_eq!(said(Combiner::Concat, &late), [false, false, false, true]);
        assert_eq!(said(Combiner::Concat, &[(1, "o")]), [true]);
        let empty = [(3, "."), (1, "."), (4, "."), (MESSAGES, "m")];
        assert_eq!(said(Combiner::Concat, &empty), [false; 4]);
        let sum = Combiner::Sum { most: 9 };
        let each = [(1, "o"), (1, "."), (4, "."), (3, "o")];
        assert_eq!(said(sum.clone(), &each), [false, false, false, true]);
        assert_eq!(said(sum, &empty), [false; 4]);
    }

    #[test]
    fn nothing_is_taken_before_helpers_know_what_they_stand_for() {
        let roles = [role()];
        let mut order = Order::new(roles.iter(), false);
        let told = Told::Frame(0, Frame::End(OUTPUT));
        order.push(told.clone());
        assert_eq!(order.next(), None);
        order.begin();
        assert_eq!(order.next(), Some(told));
    }
}
