#!/bin/bash
# What nearsh does where there is Slurm: run by tests/near/slurm on the client of a rig whose mounts have the kind of a cluster's (fuse.glusterfs).
# Each line that is printed begins with "ok" or "WRONG".
is() { # WHAT, EXPECTED, GOT
    if [[ $2 == "$3" ]]; then echo "ok $1"; else printf 'WRONG %s: expected "%s", got "%s"\n' "$1" "$2" "$3"; fi
}
has() { # WHAT, PART, TEXT
    if [[ $3 == *"$2"* ]]; then echo "ok $1"; else printf 'WRONG %s: no "%s" in "%s"\n' "$1" "$2" "$3"; fi
}
near() { nearsh --engine slurm --offload=always -c "$1"; }
jobs_of() { squeue -h -n nearsh -t running,completing -o "%i"; }
until_so() { # COMMAND...: within twenty seconds
    local n
    for ((n = 0; n < 1000; n++)); do "$@" && return; sleep 0.02; done
    false
}
no_jobs() { [[ -z $(squeue -h -n nearsh) ]]; }
ran() { nearsh stats | grep '^slurm:0 ' | grep -vc '(here: '; }
end_broker() { pkill -KILL -f "^$(readlink -f "$(command -v nearsh)") @broker"; until_so no_jobs; }

export HOME=$NEAR_SLURM/home XDG_CONFIG_HOME=
mkdir -p "$HOME/.config/nearsh"
config=$HOME/.config/nearsh/config
echo 'slurm-options --time=7 --comment=by\040us' >"$config"
cd "$NEAR_MNT/alpha" || exit
seq 1 300000 | sed 's/$/ a line/' >big
sorted=$(sort big | md5sum)
mkdir deep
printf 'b 2\na 1\n\xff 3\n' >deep/raw

# The same as under bash, by a node.
while IFS= read -r script; do
    before=$(ran)
    expected=$(bash -c "$script" 2>&1; echo "status $?")
    is "$script" "$expected" "$(near "$script" 2>&1; echo "status $?")"
    [[ $(ran) -gt $before ]] && echo "ok by a node: $script" || echo "WRONG not by a node: $script"
done <<'END'
grep 77 big | sort -r | head -3
sort <deep/raw | cat -A
cat deep/raw | tr a-z A-Z | od -c
wc -l big deep/raw
grep -c nothing big; echo $?
sort deep/none
cat big | head -1; echo "${PIPESTATUS[@]}"
for n in 1 2 3; do grep -m1 "^$n" big | cut -d' ' -f1; done
md5sum big deep/*; (cd deep && cat raw | rev)
sort big >out; cksum <out; rm out
END

# Within the site's accounting: one job under its name, with what the user says of all jobs.
is 'one job for all' 1 "$(jobs_of | wc -l)"
job=$(scontrol -o show job "$(jobs_of)")
for part in 'JobName=nearsh ' 'TimeLimit=00:07:00 ' 'NumNodes=1 ' 'NumTasks=1 ' 'Comment=by us ' "UserId=$(id -un)(" 'Partition=main '; do
    has "the job has $part" "$part" "$job "
done
agent=$(pgrep -f '^nearsh agent --stdio')
is 'a node sees the mount itself' "$(readlink /proc/self/ns/mnt)" "$(readlink "/proc/$agent/ns/mnt")"
text=$(nearsh --engine=slurm doctor; echo "status $?")
has 'doctor says where commands run' "$NEAR_MNT/alpha: alpha:/srv/export, by fuse.glusterfs; commands run on nodes of Slurm" "$text"
has 'doctor says that a node is reached' 'srun was given a node and reaches it' "$text"
has 'a job of one processor uses one' "processors of it that are the job's: 1"$'\n' "$text"
has 'doctor says that all is well' 'status 0' "$text"
has 'explain says what is connected' 'slurm:0: connected' "$(nearsh --engine slurm explain 'sort big')"

# Bytes that stdio might change, and many of them.
head -c 20000000 /dev/urandom >bytes
is 'all bytes pass' "$(md5sum <bytes)" "$(near 'cat bytes' | md5sum)"

# A job that is cancelled in mid-pipeline is not seen. The files are new on their host, so that they are read over the line, which is slow.
for n in 1 2 3 4; do
    rig in alpha sh -c "seq ${n}000000 ${n}700000 >/srv/export/cold$n"
    rig slow alpha 40mbit
    (sleep "0.$((n * 2))"; scancel -n nearsh) &
    is "cancelled in mid-pipeline ($n)" "$(seq "${n}000000" "${n}700000" | md5sum) 0 0" \
        "$(near "cat cold$n | grep -v x; echo \${PIPESTATUS[@]} >&2" 2>"$NEAR_SLURM/status" | md5sum) $(<"$NEAR_SLURM/status")"
    wait
    rig heal alpha
done
[[ $(nearsh stats | grep -c 'was cut') -gt 0 ]] && echo 'ok some of them were cut' || echo 'WRONG none of them was cut'

# The allocation is given back: when nothing has run for the time that was said, and when the broker is killed.
near 'wc -l <big' >/dev/null
is 'a node is kept for a while' 1 "$(jobs_of | wc -l)"
end_broker && echo 'ok a broker that is killed leaves no job' || echo 'WRONG a broker that was killed has left a job'
is 'and no agent' '' "$(pgrep -f '^nearsh agent --stdio')"
echo 'slurm-keep 1' >>"$config"
is 'a node is had again' 300000 "$(near 'wc -l <big')"
before=$(ran)
until_so no_jobs && echo 'ok a node that nobody needs is given back' || echo 'WRONG a node that nobody needs is kept'
is 'and another is had' 300000 "$(near 'wc -l <big')"
[[ $(ran) -gt $before ]] && echo 'ok by a node' || echo 'WRONG not by a node'
end_broker

# In an allocation that the user has, no other one is asked for.
salloc -Q -N1 -n1 -J mine bash -c '
    nearsh --engine slurm --offload=always -c "wc -l <big"; squeue -h -n nearsh; nearsh stats | grep -o "slurm:$SLURM_JOB_ID.0"; pkill -KILL -f "^nearsh agent --stdio"' \
    >"$NEAR_SLURM/within" 2>&1
is 'in an allocation' "300000 slurm:" "$(sed -E 's/slurm:[0-9]+.0/slurm:/' "$NEAR_SLURM/within" | tr '\n' ' ' | sed 's/ $//')"
end_broker

# Lanes on several nodes: of an allocation of the user's all of them, else as many as a line says and as there are.
salloc -Q -N2 -n2 -J mine bash -c '
    nearsh --engine slurm --offload=always -c "wc -l <big; sort big | md5sum"; squeue -h -n nearsh
    nearsh stats | grep -c "slurm:$SLURM_JOB_ID.0, slurm:$SLURM_JOB_ID.1"; pkill -KILL -f "^nearsh agent --stdio"' >"$NEAR_SLURM/within" 2>&1
is 'in an allocation of two nodes' "300000 $sorted 2" "$(tr '\n' ' ' <"$NEAR_SLURM/within" | sed 's/ $//')"
end_broker
echo 'slurm-nodes 2' >"$config"
both() { nearsh stats | grep '^slurm:0, slurm:1 ' | grep -vc '(here: '; }
while IFS= read -r script; do
    before=$(both)
    expected=$(bash -c "$script" 2>&1; echo "status $?")
    is "two nodes: $script" "$expected" "$(near "$script" 2>&1; echo "status $?")"
    [[ $(both) -gt $before ]] && echo "ok by both: $script" || echo "WRONG not by both: $script"
done <<'END'
grep -c 7 big
cut -d' ' -f1 big | sort -n | tail -n 2
awk '{ s += $1 } END { print s }' <big
grep -f deep/raw big | cut -c1-9; echo $?
tr a-z A-Z <big >out; cksum <out; rm out
grep line big | head -n 2
cat big | (read -r x; echo "$x")
seq 1 900000 >two; cat two big two | wc -lc; rm two
END
is 'a node each' 2 "$(jobs_of | wc -l)"
end_broker
nearsh --engine slurm explain --connect 'sort big' >"$NEAR_SLURM/said"
is 'explain asks for the first' 1 "$(jobs_of | wc -l)"
is 'and the others are asked for by who needs them' "$sorted 2" "$(near 'sort big | md5sum') $(jobs_of | wc -l)"
scancel "$(jobs_of | head -n 1)"
is 'one of them is taken away' "$sorted" "$(near 'sort big | md5sum')"
end_broker
srun -n3 -J others sleep 600 &
until_so test 2 == "$(squeue -h -n others -t running -o %D)"
for turn in first second; do
    before=$(ran)
    is "one of them is not free, $turn" "$sorted" "$(near 'sort big | md5sum')"
    [[ $(ran) -gt $before ]] && echo 'ok the other one does it' || echo 'WRONG no node does it'
done
scancel -n others
wait
end_broker
rm "$config"

# Only a mount that a line names goes to Slurm without its engine.
echo 'alpha:/srv/export via slurm' >"$config"
before=$(ran)
is 'one mount by a line' 300000 "$(nearsh --offload=always -c 'wc -l <big')"
[[ $(ran) -gt $before ]] && echo 'ok by a node' || echo 'WRONG not by a node'
end_broker
rm "$config"

# A folder that nodes do not have, because it is mounted in a namespace that they do not see, makes nothing else unusable.
mkdir "$NEAR_SLURM/apart"
unshare --mount --propagation private bash -c '
    sshfs -o subtype=glusterfs beta:/srv/export "$1" 2>/dev/null
    seq 1 9 >"$1/few"
    nearsh --engine slurm --offload=always -c "wc -l <$1/few; wc -l <big; cat $1/few big | wc -l"
    nearsh stats | grep "^slurm:0 " | grep -vc "(here: "
    nearsh --engine slurm doctor | grep -A1 "^  $1:" | tail -n 1' bash "$NEAR_SLURM/apart" >"$NEAR_SLURM/apart.said" 2>&1
is 'beside a folder that nodes do not have' "9 300000 300009 1     cannot be used: $NEAR_SLURM/apart is another folder than the one that is mounted" \
    "$(tr '\n' ' ' <"$NEAR_SLURM/apart.said" | sed 's/ $//')"
end_broker

# No node is free; the limits are too narrow; options that there are not.
srun -N2 -n4 -J others sleep 600 &
until_so test 2 == "$(squeue -h -n others -t running -o %D)"
is 'no node is free' 300000 "$(near 'wc -l <big')"
has 'doctor says so' 'Slurm had no free node within 5 s' "$(nearsh --engine slurm doctor)"
scancel -n others
wait
end_broker
is 'nobody waits any more' '' "$(squeue -h -n nearsh)"
echo 'slurm-options --partition=none' >"$config"
is 'a partition that there is not' 300000 "$(near 'wc -l <big')"
text=$(nearsh --engine slurm doctor; echo "status $?")
has 'doctor says what Slurm said' 'Slurm gave no node; it said: srun: error: invalid partition specified: none' "$text"
has 'and what to do' "can be said in $config: slurm-options --account=NAME" "$text"
has 'and that it is not well' 'status 1' "$text"
echo 'slurm-options --nonsense' >"$config"
has 'doctor knows bad options' "to do: see slurm-options in $config" "$(nearsh --engine slurm doctor)"
rm "$config"
has 'doctor says that nearsh is not there' 'Slurm gave a node, but "no-nearsh agent" cannot be run there' "$(NEARSH_AGENT='no-nearsh agent' nearsh --engine slurm doctor)"
end_broker

# No controller, which is found out in the middle of work: what runs goes on, and then all runs here.
kill "$NEAR_SLURM_CONTROLLER"
until_so eval '! kill -0 "$NEAR_SLURM_CONTROLLER" 2>/dev/null'
is 'no controller' 300000 "$(near 'wc -l <big')"
is 'no controller, again' "$sorted" "$(near 'sort big | md5sum')"
text=$(nearsh --engine slurm doctor; echo "status $?")
has 'doctor says that there is none' 'Unable to contact slurm controller' "$text"
has 'and what to do about that' 'to do: see that sinfo answers here' "$text"
has 'and that nothing is well' 'status 1' "$text"
