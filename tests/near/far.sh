#!/bin/bash
# What the scripts of cases/ are too small for, on the client of a rig with sshfs as people have it: connections that are cut in the middle of much,
# what is seen here of files that were written there, and an agent that is restricted. Each line that is printed begins with "ok" or "WRONG".
is() { # WHAT, EXPECTED, GOT
    if [[ $2 == "$3" ]]; then echo "ok $1"; else echo "WRONG $1: expected \"$2\", got \"$3\""; fi
}
near() { nearsh --offload=always -c "$1"; }

cd "$NEAR_MNT/beta" || exit
seq 1 300000 >big
sorted=$(sort big | md5sum)
near 'wc -l <big' >/dev/null
cuts=0
for i in 1 2 3 4 5 6; do
    rig heal beta
    sleep 0.6
    rig slow beta 40mbit
    rig cut beta $((i * 300000))
    is "cut after $i x 300 kB, a command that waits for all" "$sorted 0 0" "$(near 'cat big | sort; echo "${PIPESTATUS[@]}" >/dev/stderr' 2>"/tmp/status.$$" | md5sum) $(<"/tmp/status.$$")"
    is "cut after $i x 300 kB, input by the shell" "$sorted" "$(near 'cat <big | sort' | md5sum)"
done
rig heal beta
sleep 1
cuts=$(nearsh stats | grep -c 'was cut')
[[ $cuts -gt 0 ]] && echo "ok some of them were cut" || echo "WRONG none of them was cut"

cd "$NEAR_MNT/alpha" || exit
seq 1 1000 >n
near 'wc -l <n' >/dev/null
for i in 1 2 3; do
    is "a file written there has its length here" "1 7 3893" "$(near 'grep 7 n >out; [ -s out ] && echo 1; read -r x <out; echo "$x"; cat n >out; dd if=out 2>/dev/null | wc -c; rm out' | tr '\n' ' ' | sed 's/ $//')"
    is "one that was removed there is gone" "gone" "$(near 'cp n m; rm m; [ -e m ] || echo gone')"
    is "one that was changed in place is read anew" "1000" "$(near 'cp n m; sort -rn -o m m; head -1 m')"
done
nearsh stats | grep -q 'alpha.* cat$' && echo "ok they ran there" || echo "WRONG nothing ran there"

# A neighbour that fails to start, or that only runs here, is waited for no longer than it takes to see that (0.4 s were waited for before).
before=${EPOCHREALTIME/./}
for i in 1 2 3 4 5; do near 'cat n | sort >/nonexistent/x; sort </nonexistent/x | cat - n | wc -l; cat n | sort >/dev/full; cat n | sort >&-' 2>/dev/null; done >/dev/null
took=$((${EPOCHREALTIME/./} - before))
[[ $took -lt 5000000 ]] && echo "ok nobody waits for who does not come" || echo "WRONG neighbours that did not come were waited for: $took us"

home=$(mktemp -d)
: >"$home/.jq"
echo '{"a":1}' >j
is "what a file in the home folder may change runs here" "nearsh: line 1: jq: here: ~/.jq may change what it does" \
    "$(HOME=$home nearsh --offload=always --debug=list -c 'jq -c .a j' 2>&1 >/dev/null)"
rm -r "$home" j

# One host begins at once, the other is asleep: what comes from the first must wait until the helpers know that it will come.
cd "$NEAR_MNT" || exit
seq 1 600000 >alpha/one
seq 600001 1200000 >beta/two
for host in alpha beta; do rig delay "$host" 20ms; done
pkill -f 'nearsh @broker' # the next one measures anew
for i in 1 2; do nearsh -c 'wc -l alpha/one beta/two' >/dev/null; done
nearsh -c 'cat alpha/one beta/two | grep 77777' >/dev/null
for command in 'cat alpha/one beta/two | grep 77777' 'grep -h 77777 alpha/one beta/two' 'cat alpha/one beta/two | grep 77777 | cut -c 2-'; do
    rig in beta pkill -STOP -f 'agent --stdio'
    { sleep 0.7 && rig in beta pkill -CONT -f 'agent --stdio'; } &
    is "a host that begins late: $command" "$(bash -c "$command" | md5sum) 0" "$(nearsh -c "$command; printf ' %s' \$? >/dev/stderr" 2>"/tmp/status.$$" | md5sum)$(<"/tmp/status.$$")"
    wait
done
is "they ran on both" "3 0" "$(nearsh stats | tail -n 3 | grep -c 'alpha, beta\|beta, alpha') $(nearsh stats | tail -n 3 | grep -c 'here:')"
rm alpha/one beta/two

# What several write into one file that a shell has open for them, and what cannot be read or written where outputs are put together.
cd "$NEAR_MNT/alpha" || exit
seq 1 300000 >many
seq 300001 600000 >"$NEAR_MNT/beta/more"
both="$NEAR_MNT/alpha/many $NEAR_MNT/beta/more"
for command in '{ grep 77777 many & grep 88888 many & wait; } >log' \
    'for i in 1 2 3; do grep -c 77777 many & done >log; wait' \
    'for i in 1 2; do grep -c 77777 many; echo "$i"; done >log'; do
    for shell in 'bash -c' 'nearsh --offload=always -c' 'nearsh -c'; do
        $shell "$command" bash 2>/dev/null
        is "$shell, one file for several: $command" "${wanted:=$(sed 's/^bash: line/nearsh: line/' log | sort | md5sum)}" "$(sort log | md5sum)"
    done
    wanted=''
done
# Who writes to one place does so in the order of what happened: cat complains before grep has anything to print.
for shell in 'bash -c' 'nearsh --offload=always -c' 'nearsh -c'; do
    is "$shell, messages and output in one pipe" 30 \
        "$($shell 'for i in {1..30}; do { cat missing many | grep 77777; } 2>&1 | head -n 1; done' | grep -c 'cat: missing')"
    is "$shell, messages and output in one file" 30 \
        "$($shell 'for i in {1..15}; do (exec >log 2>&1; cat missing many | grep 77777; sort missing; echo done); sed -n "1p; \$p" log; done' | grep -c '^done$\|^cat: missing')"
done
rig slow alpha 100mbit
rig slow beta 300mbit
is "no room for a part that waits" "0 4088894" "$(TMPDIR=/missing nearsh -c "x=\$(cat $both | grep -v zzz); echo \$? \${#x}")"
rig heal alpha
rig heal beta
for command in 'comm - many </tmp | wc -l; echo "${PIPESTATUS[@]}"' 'grep -c -f - many </tmp' 'sort -m many - </tmp | wc -l'; do
    is "a folder is no input: $command" "$(bash -c "$command" 2>&1)" "$(nearsh -c "$command" 2>&1 | sed 's/^nearsh/bash/')"
done
is "who ignores SIGPIPE is told" "$(bash -c 'trap "" PIPE; sort many | (read -r x; echo $x); echo "${PIPESTATUS[@]}"' 2>&1)" \
    "$(near 'trap "" PIPE; sort many | (read -r x; echo $x); echo "${PIPESTATUS[@]}"' 2>&1)"
# Lanes' messages have no place among what they print: where both go to one place, lanes are taken as long as none of them complains.
for command in "cat $both | grep 77777" "grep -h 77777 $both" "cut -c1-3 $both | sort -u" "cat $both | grep -c 1" "sort -n $both | tail -n 3"; do
    is "messages and output in one place, in lanes: $command" "$(bash -c "$command" 2>&1 | md5sum)" "$(near "$command" 2>&1 | md5sum)"
    is "those ran in lanes" "alpha, beta" "$(nearsh stats | tail -n 1 | grep -o '^alpha, beta\|^beta, alpha' | sed 's/beta, alpha/alpha, beta/')"
done
{ seq 300001 400000; echo five; seq 400001 600000; } >"$NEAR_MNT/beta/odd"
command="cat many $NEAR_MNT/beta/odd | factor; echo \"\${PIPESTATUS[@]}\""
for i in 1 2 3; do
    is "one of them complains, $i" "$(bash -c "$command" 2>&1 | md5sum)" "$(near "$command" 2>&1 | md5sum)"
done
is "only once it was tried in lanes" 1 "$(nearsh stats | grep -c 'a part of it complains')"
rm "$NEAR_MNT/beta/odd"
# Wherever it stands, and whatever was printed before; in a pipe and in a file of a mount.
seq 1 2000 >few
for i in 1 2 3 4 5; do
    { seq 3000 $((i * 700 + 3000)); echo "five$i"; seq 7000 90000; } >"$NEAR_MNT/beta/odd$i"
    for command in "cat few $NEAR_MNT/beta/odd$i | factor" "{ cat few $NEAR_MNT/beta/odd$i | factor; echo done; } >log; cat log"; do
        is "one complains behind $((i * 700)) lines: $command" "$(bash -c "exec 2>&1; $command" | md5sum)" "$(near "exec 2>&1; $command" | md5sum)"
    done
    is "the same into a file with its messages, $i" "$(bash -c "cat few $NEAR_MNT/beta/odd$i | factor >log 2>&1"; md5sum <log)" \
        "$(near "cat few $NEAR_MNT/beta/odd$i | factor >log 2>&1"; md5sum <log)"
done
rm "$NEAR_MNT"/beta/odd[1-5] few
# What is held back for that is not held back for long.
{ near "cat $both | sed -n '/77777\$/p;\$p' 2>&1" | { read -r first; echo "$first"; cat >/dev/null; } >first; } &
wait
is "the first line of many comes" 77777 "$(cat first)"
rm -f first log
{ seq 1 40000; printf 'x\0y\n'; } >"$NEAR_MNT/beta/binary"
for command in "grep -h 9999 many $NEAR_MNT/beta/binary >out; echo \$?; cat out" "cat many $NEAR_MNT/beta/binary | grep 9999 >>out; echo \$?; cat out"; do
    is "lanes that turn out not to be text, into a file of the mount: $command" "$(bash -c "$command" 2>&1; rm out)" "$(near "$command" 2>&1; rm out)"
done
rm "$NEAR_MNT/beta/binary"
for command in "trap '' PIPE; cat $both | head -n 2; echo \"\${PIPESTATUS[@]}\"" "trap '' PIPE; cat $both | grep 7 | head -n 2; echo \"\${PIPESTATUS[@]}\""; do
    is "lanes that nobody reads, and who ignores SIGPIPE: $command" "$(bash -c "$command" 2>/tmp/status.$$; cat "/tmp/status.$$")" "$(near "$command" 2>/tmp/status.$$; cat "/tmp/status.$$")"
done
# Archives of two hosts: each is opened where it is, as long as none is amiss.
N=$NEAR_MNT/beta
gzip <many >one.gz
gzip <"$N/more" >"$N/two.gz"
printf x | cat many - | gzip >"$N/open.gz"
head -c 300000 one.gz >"$N/cut.gz"
for command in "zcat one.gz $N/two.gz | grep -c 77" "gzip -dc one.gz $N/open.gz | tail -n 2" "zcat $N/open.gz one.gz | sed -n '300000,300002p'" "zcat one.gz $N/cut.gz $N/two.gz | wc -l" \
    "zcat one.gz $N/two.gz | head -n 3" "zcat one.gz $N/cut.gz $N/two.gz >out"; do
    is "archives: $command" "$(bash -c "$command; echo \"\${PIPESTATUS[@]}\"; [ ! -e out ] || md5sum <out; rm -f out" 2>&1)" \
        "$(near "$command; echo \"\${PIPESTATUS[@]}\"; [ ! -e out ] || md5sum <out; rm -f out" 2>&1)"
done
near "zcat one.gz $N/two.gz | grep -c 77" >/dev/null
is "they were opened where they are" "alpha, beta" "$(nearsh stats | tail -n 1 | grep -o '^alpha, beta')"
rm one.gz "$N/two.gz" "$N/open.gz" "$N/cut.gz"
timeout 20 nearsh -c "for i in 1 2 3 4 5 6; do cat $both | grep -c k\$i & done" >/dev/null
is "a shell that goes before its commands" "0" "$(sleep 3 && pgrep -fc 'grep -c k[1-6]')"
# Permissions that are set there stay, whatever was known of them here; so do those that others have set meanwhile.
seq 1 1000 >one
mkdir -p set
modes() { rig in alpha sh -c 'cd "$0" && stat -c "%n %a" "$@"' "$(rig in alpha sh -c '[ -d /srv/export/alpha ] && echo /srv/export/alpha || echo /srv/export')" "$@" | tr '\n' ' '; }
for mode in 600 +x 4755 0; do
    cp one set/m && chmod 644 set/m && ls -l set >/dev/null
    expected=$(chmod "$mode" set/m; modes set/m)
    chmod 644 set/m && ls -l set >/dev/null
    is "chmod $mode there" "$expected" "$(near "chmod $mode set/m"; modes set/m)"
    rm -f set/m
done
is "chmod of a folder there" "set 1777 1777" "$(near 'chmod 1777 set'; modes set)$(stat -c %a set)"
echo x >set/f
for command in 'grep 7 one >set/f' 'sort -o set/f one' 'touch set/g' 'sed -i s/1/2/ set/f'; do
    rig in alpha sh -c 'cd /srv/export/alpha 2>/dev/null || cd /srv/export; chmod 644 set/f; chmod 755 set'
    sleep 1.1; ls -lR set >/dev/null
    rig in alpha sh -c 'cd /srv/export/alpha 2>/dev/null || cd /srv/export; chmod 640 set/f; chmod 700 set'
    near "$command"
    is "others' chmod stays: $command" "set 700 set/f 640 " "$(modes set set/f)"
done
rm -rf set
# Lanes of a program complain of other records than one process does; so they do not.
{ seq 1 200000; printf 'a\xff\xfeb\n'; seq 1 200000; printf '\xff\n'; } >odd
for command in 'LC_ALL=C.UTF-8 awk "{ n += length(\$0) } END { print n }" odd' 'awk "{ n += 1 / (\$1 - 150000) } END { print n }" odd' 'LC_ALL=C.UTF-8 awk "{ print length(\$0) }" odd' 'jq .a odd | wc -l'; do
    is "messages of a program: $command" "$(bash -c "$command; echo \$?" 2>&1 >out; cat out)" "$(near "$command; echo \$?" 2>&1 >out; cat out)"
done
rm odd out
# A file that is longer than it may be is as long here as it is there.
seq 1 100000 >long
is "a file that may not be longer" "$(bash -c 'ulimit -f 100; cat long >cut; echo $?; wc -c <cut; rm cut' 2>/dev/null)" "$(near 'ulimit -f 100; cat long >cut; echo $?; wc -c <cut; rm cut' 2>/dev/null)"
rm long
# What a command leaves of its input is the next one's.
seq 1 400000 >left
for command in '{ wc -c; wc -l; } <left' '{ wc -l; wc -c; } <left' 'exec <left; n=$(wc -c); read -r l; echo "$n $l"' '{ grep -c 7; wc -l; } <left'; do
    is "one after the other: $command" "$(bash -c "$command")" "$(near "$command")"
done
rm left
# A disk that cannot be read from somewhere on: as if it had been read from here. What sshfs says of that is the end of the file, or, if its length is asked for
# in that moment, zero bytes as far as the file was thought to reach.
if rig in alpha sh -c 'cd /tmp && truncate -s 48m disk && mkfs.ext4 -q disk && mkdir /srv/export/worn && mount -o loop disk /srv/export/worn' 2>/dev/null; then
    rig in alpha sh -c 'seq 1 4000000 >/srv/export/worn/lines && sync && truncate -s 24m /tmp/disk && echo 3 >/proc/sys/vm/drop_caches'
    for command in 'grep -c 77777 worn/lines' 'cat worn/lines | sed -n 1,1318000p | sort | wc -l' 'wc -l <worn/lines' 'sort -rn worn/lines | head -n 2'; do
        wanted=$(bash -c "$command; echo \"\$? \${PIPESTATUS[@]}\"" 2>&1)
        is "a disk that cannot be read: $command" "$wanted" "$(near "$command; echo \"\$? \${PIPESTATUS[@]}\"" 2>&1)"
    done
    rig in alpha umount -l /srv/export/worn
    rig in alpha rm -r /srv/export/worn /tmp/disk
else
    echo "ok left out: a disk that cannot be read (there are no loop mounts here)"
fi
# A file that is replaced by another again and again is one of them for all lanes.
seq 1 200000 | tee one | sed 's/$/ x/' >two
rig in alpha sh -c 'cd /srv/export/alpha 2>/dev/null || cd /srv/export; while [ -e one ]; do for of in one two; do cp $of turn && mv turn turned; done; done' &
sleep 0.2
is "a file that is replaced meanwhile" "" "$(for i in {1..40}; do near 'grep -c x turned; cat turned | grep -c x' 2>/dev/null; done | sort -u | grep -vx '0\|200000')"
rm one && wait
rm -f two turn turned
# Somebody else ends what runs there, or what runs here in the background.
seq 1 200000 | tee slow >"$NEAR_MNT/beta/slow"
of_both="LC_ALL=C grep -h '\\(.\\).*\\1.*\\1.*\\1.*\\1' slow $NEAR_MNT/beta/slow"
wanted=$(bash -c "$of_both")
hunt='for i in {1..300}; do pkill -KILL -x grep && break; sleep 0.01; done'
rig in alpha bash -c "$hunt" &
is "a part of what runs there is killed" "$wanted"$'\n0' "$(near "$of_both; echo \$?" 2>/dev/null)"
wait
is "and that was seen" 1 "$(nearsh stats | tail -n 1 | grep -c 'a part of it failed there')"
lost=0
for i in {1..24}; do
    { sleep "0.0$((i * 4 % 90 + 10))" && pkill -KILL -f 'nearsh @broker'; } &
    got=$(nearsh --offload=always -c "cat many | sort | tail -n 3; cat $both | grep 77777; echo \${PIPESTATUS[@]}" 2>&1)
    wait
    if [[ $got == *'was not run again'* ]]; then lost=$((lost + 1)); else is "a broker that is killed" "$(bash -c "cat many | sort | tail -n 3; cat $both | grep 77777; echo \${PIPESTATUS[@]}")" "$got"; fi
done
is "none of that was lost" 0 "$lost"
rm slow "$NEAR_MNT/beta/slow"
settings=$(mktemp -d)
mkdir "$settings/nearsh" && mkfifo "$settings/nearsh/config"
is "settings that are no file" "3" "$(XDG_CONFIG_HOME=$settings timeout 10 nearsh -c 'grep -c 77777 many')"
# Output and messages in one file, of a command that is run again from the middle, and of one that writes there beside it; nobody who reads messages.
seq 1 1500000 >big
for command in 'cat missing big >log 2>&1' 'grep -h . big missing >log 2>&1' '{ cat big missing | sed s/a/b/; } >log 2>&1' \
    '{ sed s/a/b/ big; for i in {1..60}; do echo tick; sleep 0.01; done & wait; } >log 2>&1'; do
    wanted=$(bash -c "$command; echo \$?; wc -c <log")
    for i in 1 2 3; do
        # What writes into a file there is over before the cut, if there is a connection.
        near 'wc -l <many' >/dev/null
        rig slow alpha 60mbit
        { sleep 0.3 && rig cut alpha; } &
        is "cut: $command" "$wanted" "$(near "$command; echo \$?; wc -c <log" 2>&1)"
        wait %%
        rig heal alpha
        sleep 0.6
    done
done
command='trap "" PIPE; cat big | (sleep 0.6; read -r x; echo "$x"); echo "${PIPESTATUS[@]}"'
wanted=$(bash -c "$command" 2>&1)
for i in 1 2 3 4; do
    rig slow alpha 20mbit
    { sleep 0.3 && rig cut alpha; } &
    is "cut, and who ignores SIGPIPE is told" "$wanted" "$(near "$command" 2>&1)"
    wait %%
    rig heal alpha
    sleep 0.6
done
fifo=$(mktemp -u)
mkfifo "$fifo"
command="(exec 5<$fifo; sleep 0.1) & exec 3>$fifo;"' sleep 0.3; wait; cat many missing big 2>&3 | wc -l >/dev/null; echo "${PIPESTATUS[@]}"'
is "nobody reads messages" "$(bash -c "$command")" "$(near "$command")"
rm big "$fifo"
rm -r many "$NEAR_MNT/beta/more" log "$settings"
