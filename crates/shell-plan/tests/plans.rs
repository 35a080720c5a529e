//! Plans of a dozen pipelines, Posh's five applications among them, as `explain` says them: `tests/plans/NAME.txt`.
//!
//! `PERDURE_WRITE_GOLDEN=1` writes what is said today; a change of it is then seen in the version control.

use std::path::Path;

use shell_plan::annotation::Annotation;
use shell_plan::plan::{Facts, Group, Place, Plan, explain, plan};

mod common;
#[path = "common/world.rs"]
mod world;

use common::{annotations, words};
use world::{World, cloud, university};

fn worlds() -> Vec<(&'static str, World, &'static str)> {
    let mut lab = World::of(vec![university("lab", 8.0)]);
    lab.sizes = vec![
        ("/lab/ray", 6_000_000_000),
        ("/lab/scan", 40_000_000_000),
        ("/lab/list", 300_000_000),
        ("/lab/small", 20_000),
        ("/here/words", 2_000_000),
        ("/lab/img", 3_000_000),
    ];
    lab.folders = vec![("/lab/repo", 50_000), ("/lab/tree", 20_000)];
    let repo = |folder: &'static str| World {
        folder,
        ..World {
            folders: vec![("/lab/repo", 50_000)],
            ..lab.clone()
        }
    };
    let mut trees = World {
        sizes: vec![("/lab/tree", 700_000_000)],
        ..lab.clone()
    };
    trees.hosts[0].mount.differs.clear();
    let mut five = World::of(
        (1..=5)
            .map(|n| university(&format!("log{n}"), 2.0))
            .collect(),
    );
    five.sizes = vec![("/log", 16_000_000_000)];
    let mut near = World::of((1..=5).map(|n| cloud(&format!("log{n}"), 2.0)).collect());
    near.sizes = vec![("/log", 16_000_000_000)];
    // A machine in the same house that is somewhat busy, as nearsh takes it to be before it has measured anything.
    let unmeasured = |name: String| {
        let mut host = cloud(&name, 1.0);
        (host.connected, host.connect_s) = (false, 0.154);
        (host.down, host.up) = (400e6, 400e6);
        (host.mount.read, host.mount.write) = (320e6, 8e6);
        host
    };
    let mut five_cold = World::of((1..=5).map(|n| unmeasured(format!("log{n}"))).collect());
    five_cold.sizes = vec![("/log", 160_000_000)];
    five_cold.idle_cores = 1.0;
    let five_cold_again = five_cold.clone();
    let mut two = World::of(vec![cloud("a", 4.0), cloud("b", 4.0)]);
    two.sizes = vec![("/a/big", 5_000_000_000), ("/b/small", 40_000_000)];
    // The one with the larger file has a little more to do at the moment.
    let mut busy = World::of(vec![university("a", 0.3), university("b", 0.5)]);
    busy.sizes = vec![("/a/big", 135_000_000), ("/b/small", 18_000_000)];
    // Three nodes of a cluster, of which one is connected, and a folder that all of them have.
    let mut cluster = World::of((0..3).map(|n| cloud(&format!("node{n}"), 2.0)).collect());
    for (number, node) in cluster.hosts.iter_mut().enumerate().skip(1) {
        node.has_files_of = Some(0);
        (node.connected, node.connect_s) = (number == 1, 0.4);
    }
    cluster.sizes = vec![("/node0/small", 60_000_000), ("/node0", 8_000_000_000)];
    let mut cold = lab.clone();
    cold.hosts[0].connected = false;
    // As nearsh takes a tree to be of which nothing is known.
    let unseen = World {
        folder: "/lab/repo",
        folders: vec![("/lab/repo", 2_000)],
        ..cold.clone()
    };
    let narrow = World {
        hosts: vec![university("lab", 2.0)],
        ..lab.clone()
    };
    let grep5 =
        "grep -h '^.*TIMEOUT' /log1/syslog /log2/syslog /log3/syslog /log4/syslog /log5/syslog";
    vec![
        (
            "posh-ray-tracing",
            lab.clone(),
            "cat /lab/ray.log | grep '[0-9]' | sed 's/,//g' | awk '{ print $5, $2 }' | sort -n | head -20",
        ),
        (
            "posh-thumbnails",
            lab.clone(),
            "mogrify -resize 10% /lab/img1.jpg /lab/img2.jpg /lab/img3.jpg /lab/img4.jpg",
        ),
        (
            "posh-port-scan",
            lab.clone(),
            "cat /lab/scan.json | jq -c .ip | awk '{ n[$1]++ } END { for (k in n) print n[k], k }' | sort -rn",
        ),
        ("posh-log-grep", five.clone(), grep5),
        ("posh-log-grep-cloud", near, grep5),
        (
            "log-grep-near-and-cold",
            five_cold,
            "cat /log1/a /log2/a /log3/a /log4/a /log5/a | grep '128\\.151\\.150'",
        ),
        (
            "any-text-near-and-cold",
            five_cold_again,
            "cat /log1/a /log2/a /log3/a /log4/a /log5/a | grep '[0-9]'",
        ),
        (
            "nodes-of-a-cluster",
            cluster.clone(),
            "sort /node0/log | uniq -c",
        ),
        (
            "files-on-a-cluster",
            cluster.clone(),
            "cat /node0/a /node0/b /node0/c /node0/d | wc -l",
        ),
        (
            "too-little-for-a-cluster",
            cluster,
            "awk '{ s += $2 } END { print s }' /node0/small",
        ),
        ("posh-git-status", repo("/lab/repo"), "git status"),
        ("counted-lines", lab.clone(), "grep -c x /lab/list"),
        (
            "sorted-with-two-cores",
            narrow,
            "sort /lab/list | uniq -c | sort -rn | head",
        ),
        (
            "counted-keys",
            lab.clone(),
            "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' /lab/list | sort",
        ),
        (
            "pmawk-itself",
            lab.clone(),
            "pmawk '{ s += $1 } END { print s }' /lab/list",
        ),
        ("two-sides", two, "comm -12 /a/big /b/small | wc -l"),
        (
            "two-sides-that-are-busy",
            busy,
            "comm -12 /a/big /b/small | wc -l",
        ),
        (
            "words-from-here",
            lab.clone(),
            "grep -c -f /here/words /lab/scan.json",
        ),
        (
            "written-there",
            lab.clone(),
            "tr a-z A-Z < /lab/list > /lab/list.upper",
        ),
        (
            "local-in-the-middle",
            lab.clone(),
            "cat /lab/list | my-filter | sort -u",
        ),
        ("small-and-cold", cold.clone(), "grep x /lab/small"),
        ("large-and-cold", cold, "grep x /lab/list"),
        ("unseen-tree-and-cold", unseen, "git status"),
        ("first-lines", lab.clone(), "cat /lab/scan.json | head -5"),
        (
            "names-in-a-tree",
            lab.clone(),
            "find /lab/tree -name x | sort",
        ),
        (
            "some-time",
            lab.clone(),
            "timeout 60 grep x /lab/list | sort",
        ),
        (
            "another-locale",
            lab.clone(),
            "nice env LC_ALL=C sort /lab/list | uniq -c",
        ),
        (
            "found-and-searched",
            trees.clone(),
            "find /lab/tree -name '*.log' -exec grep -l x {} +",
        ),
        (
            "named-and-searched",
            trees,
            "find /lab/tree -type f -print0 | sort -z | xargs -0 grep -c x | sort",
        ),
        (
            "named-by-who-knows",
            lab,
            "grep -l x /lab/list | xargs wc -l",
        ),
    ]
}

#[test]
fn plans_are_said_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let all = annotations();
    let mut wrong = Vec::new();
    for (name, world, pipeline) in worlds() {
        let facts = world.facts(&all, pipeline);
        let plan = plan(&facts);
        let said = format!("$ {pipeline}\n{}", explain::text(&facts, &plan));
        let path = folder.join(format!("{name}.txt"));
        if std::env::var_os("PERDURE_WRITE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &said).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != said {
            wrong.push(said);
        }
        is_drawn(&facts, &plan, name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The drawing is a document of its own in which every machine and every stage is named.
fn is_drawn(facts: &Facts<'_>, plan: &Plan, name: &str) {
    let drawn = explain::svg(facts, plan);
    assert!(
        drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"),
        "{name}"
    );
    assert_eq!(
        drawn.matches("<text").count(),
        drawn.matches("</text>").count()
    );
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{name}");
    for stage in &facts.stages {
        let command = String::from_utf8_lossy(&stage.words[0]);
        assert!(drawn.contains(&format!(">{command}")), "{name}: {command}");
    }
    for group in &plan.groups {
        for lane in &group.lanes {
            assert!(drawn.contains(&facts.hosts[lane.host].name), "{name}");
        }
    }
    if let Some(folder) = std::env::var_os("PERDURE_DRAWINGS") {
        std::fs::write(Path::new(&folder).join(format!("{name}.svg")), drawn).unwrap();
    }
}

/// The plan of a pipeline in a world.
fn planned(world: &World, pipeline: &str) -> Plan {
    let all = annotations();
    plan(&world.facts(&all, pipeline))
}

/// One host with a link that is never what a plan waits for.
fn lab() -> World {
    let mut lab = World::of(vec![university("lab", 4.0)]);
    lab.hosts[0].down = 1e10;
    lab.sizes = vec![("/lab/", 1_000_000_000)];
    lab.folders = vec![("/lab/tree", 20_000)];
    lab
}

/// What must run here, runs here, however much would be gained.
/// Who reads files that another stage names is where that one is, or here.
#[test]
fn names_are_taken_from_who_is_known_to_give_them() {
    let all = annotations();
    let mut world = World::of(vec![university("lab", 8.0), university("far", 8.0)]);
    for host in &mut world.hosts {
        host.mount.differs.clear();
    }
    world.folders = vec![
        ("/lab/tree", 2_000),
        ("/far/tree", 2_000),
        ("/lab/two words", 2_000),
    ];
    let own = World {
        folder: "/lab/tree",
        ..world.clone()
    };
    for (world, pipeline, moves) in [
        (&world, "find /lab/tree | xargs cat", true),
        (
            &world,
            "find /lab/tree -type f -print | sort -r | head -n 9 | xargs -n1 cat",
            true,
        ),
        (
            &world,
            "find /lab/tree | grep -v x | uniq | tail -5 | cat | xargs cat",
            true,
        ),
        (
            &world,
            "find /lab/tree -print0 | sort -z | xargs -0 nice cat",
            true,
        ),
        (&world, "find '/lab/two words' -print0 | xargs -0 cat", true),
        (&own, "find | xargs cat", true),
        (&own, "find . -name x | xargs cat", true),
        (
            &own,
            "find . -maxdepth 2 | xargs -I{} cmp {} /lab/list",
            true,
        ),
        (&own, "find . -name x | xargs grep -f /lab/list", true),
        (&world, "find '/lab/two words' | xargs cat", false),
        (&world, "find /lab/tree -print0 | xargs cat", false),
        (&world, "find /lab/tree | xargs -0 cat", false),
        (
            &world,
            "find /lab/tree -print0 | sort | xargs -0 cat",
            false,
        ),
        (
            &world,
            "find /lab/tree -print -print0 | xargs -0 cat",
            false,
        ),
        (&world, "find /lab/tree -printf %f | xargs cat", false),
        (&world, "find /lab/tree -exec echo {} ; | xargs cat", false),
        (&world, "find /lab/tree | grep -o x | xargs cat", false),
        (&world, "find /lab/tree | grep -n x | xargs cat", false),
        (&world, "find /lab/tree | uniq -c | xargs cat", false),
        (&world, "find /lab/tree | head -c 9 | xargs cat", false),
        (
            &world,
            "find /lab/tree | sort - /lab/list | xargs cat",
            false,
        ),
        (&world, "find /lab/tree | cut -c1-9 | xargs cat", false),
        (&world, "find /lab/tree /far/tree | xargs cat", false),
        (&world, "find /lab/tree /here/tree | xargs cat", false),
        (&world, "grep -rl x /lab/tree | xargs cat", false),
        (&world, "xargs cat", false),
    ] {
        let mut facts = world.facts(&all, pipeline);
        facts.eager = true;
        let plan = plan(&facts);
        let at = facts
            .stages
            .iter()
            .position(|stage| stage.words[0] == b"xargs")
            .unwrap();
        let group = plan.groups.iter().find(|group| group.stages.contains(&at));
        assert_eq!(
            group.is_some(),
            moves,
            "{pipeline}: {:?}",
            plan.stages[at].why
        );
        if let Some(group) = group {
            assert_eq!(
                (group.stages.start, group.lanes.len()),
                (0, 1),
                "{pipeline}"
            );
            let listed = group.listed[0];
            assert_eq!((listed.stage, listed.by), (at, 0), "{pipeline}");
            let limit = pipeline.contains("-maxdepth").then_some(3);
            assert_eq!(listed.depth, limit, "{pipeline}");
            let plain = !pipeline.contains("-0");
            assert_eq!(listed.plain, plain, "{pipeline}");
        }
    }
}

#[test]
fn what_must_not_move_does_not() {
    let mut set = lab();
    set.environment = vec![("PMAWK_HEAP", "/here/x.heap")];
    let mut missing = lab();
    missing.missing = vec!["grep"];
    let mut gone = lab();
    gone.absent = vec!["/lab/other-name-gone", "/lab/gone"];
    let other = lab();
    for (world, pipeline, why) in [
        (
            &other,
            "no-such-command /lab/a",
            "there is no annotation of it",
        ),
        (&other, "grep --no-such-option x /lab/a", "unknown option"),
        (
            &other,
            "time grep x /lab/a",
            "how long another command takes",
        ),
        (&set, "pmawk '{ print $1; x = 1 }' /lab/a", "PMAWK_HEAP"),
        (&missing, "grep x /lab/a", "lab has no grep"),
        (&gone, "cat /lab/other-name-gone /lab/a", "not there"),
        (
            &other,
            "awk '{ print > $1 }' /lab/a",
            "it writes to files or commands",
        ),
        (
            &other,
            "awk '{ while ((getline l < \"/lab/b\") > 0) n++ }' /lab/a",
            "it reads files or commands",
        ),
        (
            &other,
            "sed -n 's/a/b/w /lab/out' /lab/a",
            "its script writes or runs something",
        ),
        (
            &other,
            "grep x /lab/other-name-a",
            "it prints names of files",
        ),
        (
            &other,
            "awk '{ print FILENAME }' /lab/other-name-a",
            "it prints names of files",
        ),
        (
            &other,
            "ls -l /lab/tree > /dev/tty",
            "looks whether it prints to a terminal",
        ),
        (
            &other,
            "find /lab/tree -name x",
            "looks otherwise over the mount",
        ),
        (
            &other,
            "find /lab/tree -name x | sort -s -k1,1",
            "looks otherwise over the mount",
        ),
        (
            &other,
            "find /lab/tree -name x | sort -u",
            "looks otherwise over the mount",
        ),
        (
            &other,
            "grep -rl x /lab/tree | head",
            "looks otherwise over the mount",
        ),
        (&other, "head -5 < /lab/a", "others may read what it leaves"),
        (
            &other,
            "sort /lab/a -o /here/out",
            "a file that it names is not on lab",
        ),
        (
            &other,
            "sort /lab/a > /lab/a",
            "reads a file that it writes",
        ),
        (
            &other,
            "sort /lab/a -o /lab/b | sort /lab/b",
            "reads a file that it writes",
        ),
        (
            &other,
            "mogrify -flip /lab/a | cat /lab/a",
            "reads a file that it writes",
        ),
        (&other, "wc -l /here/a /lab/b", "prints names"),
    ] {
        let plan = planned(world, pipeline);
        assert_eq!(plan.stages[0].at, [Place::Here], "{pipeline}");
        assert!(
            plan.stages[0].why.contains(why),
            "{pipeline}: {}",
            plan.stages[0].why
        );
    }
    // And if nothing stands against it, it does.
    for pipeline in [
        "grep x /lab/a",
        "awk '{ print $1 }' /lab/other-name-a",
        "find /lab/tree -name x | sort",
        "grep -rl x /lab/tree | cut -c1-9 | wc -l",
        "sort /lab/a -o /lab/out",
        "sort /lab/a -o /lab/a",
        "mogrify -flip /lab/a /lab/a",
    ] {
        assert!(!planned(&lab(), pipeline).groups.is_empty(), "{pipeline}");
    }
    assert!(!planned(&gone, "cat /lab/gone /lab/a").groups.is_empty());
    let mut unlike = lab();
    unlike.hosts[0].any_name = true;
    assert!(
        !planned(&unlike, "grep x /lab/other-name-a")
            .groups
            .is_empty()
    );
}

/// How many lanes the first group has, and how they come together.
fn lanes(world: &World, pipeline: &str) -> (usize, String) {
    let plan = planned(world, pipeline);
    let Some(group) = plan.groups.first() else {
        return (0, String::new());
    };
    let how = group
        .combine
        .as_ref()
        .map(|combining| format!("{:?}", combining.combiner));
    let how = how.unwrap_or_default();
    let how = how.split(['(', ' ']).next().unwrap_or("").to_owned();
    (group.lanes.len(), how)
}

/// An annotation may say both that parts can be put together and that the command must run once: then it does.
#[test]
fn what_must_run_once_runs_once() {
    let mut all = annotations();
    for (effect, count) in [("once", 1), ("idempotent", 1), ("pure", 2)] {
        let text = format!(
            "names = ['oncer']\n[[use]]\nname = 'u'\noperands = ['input*']\neffect = '{effect}'\nlines = 'concat'\napart = 'concat'\n"
        );
        let annotation = Annotation::read(&text).map_err(|mistake| mistake.to_string());
        all.insert("oncer.toml".to_owned(), annotation);
        let world = lab();
        let facts = world.facts(&all, "oncer /lab/a /lab/b");
        let group = plan(&facts).groups.remove(0);
        assert_eq!(group.lanes.len(), count, "{effect}");
        assert_eq!(group.repeatable, effect != "once", "{effect}");
    }
}

#[test]
fn only_what_may_be_cut_is_cut() {
    let lab = lab();
    for (pipeline, count, how) in [
        ("sort /lab/a", 4, "Merge"),
        ("grep -a x /lab/a", 4, "Concat"),
        ("grep -c x < /lab/a", 4, "Sum"),
        ("cat /lab/a | fold | sort", 4, "Merge"),
        ("cat /lab/a | tr a-z A-Z | sort", 4, "Merge"),
        ("uniq -c /lab/a", 4, "UniqCount"),
        (
            "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' /lab/a | sort",
            4,
            "Counts",
        ),
        (
            "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' /lab/a",
            1,
            "",
        ),
        (
            "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' /lab/a | sort -s -k2",
            1,
            "",
        ),
        ("awk '{ s += $1 } END { print s }' /lab/a", 4, "Sums"),
        ("jq .a /lab/a", 1, ""),
        ("mogrify -resize 50% /lab/a /lab/b", 1, ""),
        ("grep -n x /lab/a", 1, ""),
        ("grep x /lab/a /lab/b", 2, "Concat"),
        ("cat /lab/a /lab/b | sort", 2, "Merge"),
        ("md5sum /lab/a /lab/b | sort", 2, "Merge"),
        ("sed s/x/yyyy/ /lab/a /lab/b", 2, "Concat"),
        // Lines of two files that become one.
        ("cat /lab/unended-a /lab/b | sort | head -1", 1, ""),
        ("sed s/x/yyyy/ /lab/unended-a /lab/b", 1, ""),
    ] {
        assert_eq!(lanes(&lab, pipeline), (count, how.to_owned()), "{pipeline}");
    }
    let group = planned(&lab, "cat /lab/a | tr ' ' '\\n' | fold | sort")
        .groups
        .remove(0);
    assert_eq!(group.lanes_end, 4, "tr adds line ends");
    // Plan or not: no lanes go on behind a tr that takes line ends away.
    let groups = planned(&lab, "cat /lab/a | tr '\\n' ' ' | fold | sort").groups;
    let goes_on = |group: &Group| group.lanes.len() > 1 && group.lanes_end > 2;
    assert!(!groups.iter().any(goes_on));
    let group = planned(&lab, "grep x /lab/a /lab/b").groups.remove(0);
    assert_eq!(group.lanes[1].words, words("grep -H x /lab/b"));
    let group = planned(&lab, "pmawk -v x=1 '{ s += $1 } END { print s }' /lab/a")
        .groups
        .remove(0);
    let shared = words("pmawk -j 4 -v x=1 '{ s += $1 } END { print s }' /lab/a");
    assert_eq!(group.lanes[0].words, shared);
    let group = planned(&lab, "sort -k2,2n -t : /lab/a").groups.remove(0);
    assert_eq!(group.lanes[0].words, words("sort -k2,2n -t :"));
    let merge = shell_plan::plan::Combiner::Merge(words("sort -m -k2,2n -t :"));
    assert_eq!(
        group.combine.map(|combining| combining.combiner),
        Some(merge)
    );
}
