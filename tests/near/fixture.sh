#!/bin/sh
# Makes the tree on which the scripts of cases/ work: FOLDER/alpha and FOLDER/beta, the mounts of two hosts, and FOLDER/local.
#
#     sh fixture.sh FOLDER
#
# The same bytes, names, modes and times on every run. Links between the three are relative, so that they hold wherever the three lie
# side by side, and only there: on a host that has alpha alone, alpha/links/to-beta dangles.
set -eu
folder=${1:?"usage: fixture.sh FOLDER"}
umask 022
export LC_ALL=C TZ=UTC
mkdir -p "$folder"
cd "$folder"
mkdir alpha beta local
mkdir alpha/log alpha/odd alpha/links alpha/bin beta/log beta/odd beta/links local/lib

# Everything that has a rule. The generator is Lehmer's (16807, 2^31 - 1), whose products a double holds exactly: any awk makes the same.
awk '
function random(n) { state = (state * 16807) % 2147483647; return state % n }
function pick(list,    parts, n) { n = split(list, parts, " "); return parts[1 + random(n)] }
function two(n) { return sprintf("%02d", n) }
function log_file(name, day, lines,    i, at, url, status) {
    at = 0
    for (i = 0; i < lines; i++) {
        at += random(170)
        url = pick("/ /index.html /about /login /login /api/items /api/items?page=2 /api/users/7 /img/logo.png /static/app.js /wp-admin /search?q=a+b /caf\303\251 /old%20page")
        status = pick("200 200 200 200 200 200 304 301 404 404 403 500 503")
        printf "%d.%d.%d.%d - %s [%s/Mar/2025:%s:%s:%s +0000] \"%s %s HTTP/1.1\" %s %s \"%s\" \"%s\"\n", \
            10 + random(3), random(4), random(8), 1 + random(20), pick("- - - - anna bob carla"), two(day), \
            two(int(at / 3600) % 24), two(int(at / 60) % 60), two(at % 60), pick("GET GET GET GET POST HEAD PUT"), url, status, \
            (status == 304) ? "-" : random(50000), pick("- - https://example.org/ https://example.com/a?b=c"), \
            pick("curl/8.5 Mozilla/5.0 Mozilla/5.0 Googlebot/2.1 Wget/1.21") > name
    }
    close(name)
}
function syllables(n,    word) {
    word = ""
    while (n-- > 0) word = word pick("ba co di fu ge ha jo ki lu me no pa qui ra so te un vi wo xa ye zo st er an in th")
    return word
}
function word_file(name, lines,    i, word) {
    for (i = 1; i <= lines; i++) {
        word = syllables(1 + random(4))
        if (i % 23 == 0) word = toupper(substr(word, 1, 1)) substr(word, 2)
        if (i % 37 == 0) word = word pick("\303\251 \303\237 \320\266\320\260 \303\261o \350\252\236 na\303\257ve")
        if (i % 53 == 0) word = word "-" syllables(1)
        if (i % 101 == 0) word = "  " word
        print word > name
    }
    close(name)
}
function number_file(name, lines,    i) {
    for (i = 0; i < lines; i++) print random(2000) - 500 > name
    close(name)
}
function sorted_file(name, step, lines, keyed,    i, n) {
    n = 0
    for (i = 0; i < lines; i++) {
        n += 1 + random(step)
        printf keyed ? "k%05d %s %d\n" : "item-%05d\n", n, syllables(2), random(100) > name
    }
    close(name)
}
function table(csv, tsv, lines, first,    i, name, dept, city, salary, date) {
    print "id,name,dept,city,salary,date" > csv
    print "id\tname\tdept\tcity\tsalary\tdate" > tsv
    for (i = 0; i < lines; i++) {
        name = syllables(2) " " syllables(3); dept = pick("sales it hr ops legal"); city = pick("Oslo Paris Z\303\274rich Lima")
        salary = 20000 + random(600) * 100; date = "20" two(15 + random(10)) "-" two(1 + random(12)) "-" two(1 + random(28))
        printf "%d,%s,%s,%s,%d,%s\n", first + i, i % 29 ? name : "\"" name ", jr\"", dept, i % 17 ? city : "", salary, date > csv
        printf "%d\t%s\t%s\t%s\t%d\t%s\n", first + i, name, dept, i % 17 ? city : "", salary, date > tsv
    }
    close(csv); close(tsv)
}
function events(name, lines,    i) {
    for (i = 0; i < lines; i++)
        printf "{\"id\":%d,\"level\":\"%s\",\"host\":\"%s\",\"ms\":%d,\"tags\":[\"%s\",\"%s\"],\"msg\":\"%s \\u00e9 %s\"}\n", i, \
            pick("info info info warn error debug"), pick("web1 web2 db1"), random(5000), pick("a b c"), pick("x y"), \
            syllables(2), syllables(3) > name
    close(name)
}
function prose(name, paragraphs,    i, j, line) {
    for (i = 0; i < paragraphs; i++) {
        for (j = 0; j < 6; j++) {
            line = ""
            while (length(line) < 70) line = line (line == "" ? "" : " ") syllables(1 + random(3)) (random(9) ? "" : ",")
            print line "." > name
        }
        print "" > name
    }
    close(name)
}
function big_file(name, lines,    i) {
    for (i = 1; i <= lines; i++)
        printf "%07d %s %s %08d the quick brown %s jumps over the lazy %s near %s\n", i, pick("INFO INFO WARN ERROR"), \
            pick("disk net cpu mem"), random(100000000), pick("fox cat owl"), pick("dog hen"), pick("home town sea road") > name
    close(name)
}
function long_line(name, words,    i) {
    for (i = 0; i < words; i++) printf "%s%d", i ? " " : "", random(100000) > name
    print "" > name
    close(name)
}
BEGIN {
    state = 20250301
    for (n = 1; n <= 6; n++) log_file("alpha/log/access-" n ".log", n, 500)
    for (n = 7; n <= 9; n++) log_file("beta/log/access-" n ".log", n, 300)
    word_file("alpha/words", 3000); word_file("beta/words", 1200)
    number_file("alpha/numbers", 800); number_file("beta/numbers", 300)
    table("alpha/data.csv", "alpha/data.tsv", 250, 1); table("beta/data.csv", "beta/data.tsv", 90, 200)
    events("alpha/events.jsonl", 400); events("beta/events.jsonl", 120)
    sorted_file("alpha/sorted-a", 5, 400, 0); sorted_file("alpha/sorted-b", 5, 380, 0); sorted_file("beta/sorted-c", 4, 420, 0)
    sorted_file("alpha/keyed-a", 3, 200, 1); sorted_file("alpha/keyed-b", 3, 190, 1); sorted_file("beta/keyed-c", 3, 150, 1)
    prose("alpha/text", 12); prose("beta/text", 4)
    big_file("alpha/big", 11500); big_file("beta/middling", 1500)
    long_line("alpha/long-line", 16000)
    # Four levels of sources, settings and readmes.
    for (n = 1; n <= 60; n++) {
        dir = "alpha/tree"
        if (n > 4) dir = dir "/" (n % 3 ? "src" : "doc")
        if (n > 16) dir = dir "/" (n % 2 ? "core" : "net")
        if (n > 40) dir = dir "/" (n % 5 ? "v1" : "v2")
        kind = n % 6; name = syllables(2) n
        if (!(dir in made)) { made[dir] = 1; system("mkdir -p " dir) }
        if (kind == 0) {
            name = dir "/README-" n ".md"
            print "# " syllables(2) "\n\nTODO: write about `" syllables(1) "`.\n\n* " syllables(3) "\n* " syllables(2) > name
        } else if (kind == 1) {
            name = dir "/" name ".conf"
            print "# settings\n[main]\nport = " 1000 + random(9000) "\nhost = " pick("alpha beta localhost") "\n; old = 1\ndebug=" pick("yes no") > name
        } else if (kind == 2) {
            name = dir "/" name ".h"
            print "#ifndef H_" n "\n#define H_" n " " random(100) "\nint f" n "(int);\n#endif" > name
        } else {
            name = dir "/" name ".c"
            print "#include <stdio.h>\n#include \"f" n - 1 ".h\"\n\n/* TODO(" pick("anna bob carla") "): " syllables(3) " */\nint f" n "(int x)\n{" > name
            for (i = random(12); i >= 0; i--) print "\tx += " random(1000) ";" pick(" x // \\n FIXME") > name
            print "\treturn x;\n}" > name
        }
        close(name)
    }
}'

# What has no rule.
: >alpha/empty
: >beta/empty
printf 'one line, and no newline behind it' >alpha/one-line
printf 'first\r\nsecond line\r\n\r\nfourth\r\n' >alpha/crlf
printf 'a\000b\nbinary \001\002\377 line with needle\n\000\000tail\n' >alpha/binary
printf 'caf\351\ngar\347on\nplain\nna\357ve caf\351\n' >alpha/latin1
printf 'a b  c\n\td\te\n  leading\ntrailing  \nback\\slash\\n\n"quoted" '\''single'\''\n$HOME `date` $(id)\n*\n-n\n\n\nlast\n' >alpha/tricky
printf '1.10\n1.2\n1.9.1\n1.10-rc1\n2.0\n0.9\n' >alpha/versions
printf '10K\n3M\n512\n1G\n2K\n900K\n' >alpha/sizes
printf 'root:x:0:0:root:/root:/bin/bash\nanna:x:1001:100:Anna A:/home/anna:/bin/bash\nbob:x:1002:100:Bob:/home/bob:/bin/sh\ncarla:x:1003:101::/home/carla:/usr/sbin/nologin\ndaemon:x:1:1:daemon:/:/usr/sbin/nologin\n' >alpha/users
printf '{"people":[{"name":"Anna","age":31,"langs":["c","awk"]},{"name":"Bob","age":27,"langs":[]},{"name":"Zo\303\253","age":null,"langs":["sh"]}],"n":3}\n' >alpha/people.json
printf 'alpha -> gamma\nb a\n3 1\n\nc b\n' >alpha/messy
printf 'red 3\nred 3\nRed 4\nblue 1\nblue 1\nblue 2\ngreen 9\n' >alpha/colours
printf 'dept\tmanager\thr\nit\tLinus\t2\nops\tGrace\t3\nsales\tWilly\t1\n' >beta/managers
printf 'beta only\n' >beta/note
printf 'other first\r\nother second\r\n' >beta/crlf
printf 'x\000y\000z' >beta/binary

# Names. Each file says which it is.
cd alpha/odd
for name in 'two words' ' leading blank' 'trailing blank ' '-dash' '--help' 'star*' 'quest?' '[set]' 'quote"d' "it's" 'back\slash' '$HOME' '`id`' \
    'semi;colon' 'amp&ersand' 'pipe|d' 'par(en' 'brace{a,b}' '~' '#hash' '!bang' 'a=b' '.hidden' 'new
line' 'tab	here' "$(printf 'caf\303\251')" "$(printf 'latin\351')" "$(printf 'bad\377\376bytes')" "$(printf '\350\252\236')"; do
    printf 'this is <%s>\n' "$name" >./"$name"
done
cd ../../beta/odd
for name in 'two words' '-dash' 'star*' "$(printf 'latin\351')"; do
    printf 'beta has <%s>\n' "$name" >./"$name"
done
cd ../..

# Programs that lie on the mount.
printf '#!/bin/sh\necho "hello from $(basename "$0"), $# arguments: $*"\n' >alpha/bin/hello
printf '#!/bin/sh\ncat; echo "read it all" >&2; exit 3\n' >alpha/bin/filter
printf '#!/bin/sh\necho never\n' >alpha/bin/not-executable
printf '#!/no/such/interpreter\necho never\n' >alpha/bin/no-interpreter
printf 'echo "no first line: $#"\n' >alpha/bin/no-first-line
printf '#!/usr/bin/awk -f\n{ n += $1 }\nEND { print n }\n' >alpha/bin/total
chmod 755 alpha/bin/hello alpha/bin/filter alpha/bin/no-interpreter alpha/bin/no-first-line alpha/bin/total

# What the scripts keep on their own disk.
printf 'ERROR\n/wp-admin\n403\n' >local/patterns
printf '^[0-9]+\\.3\\.\n Googlebot/\n' >local/patterns-extended
printf 'ba\nco\ndi\nfu\nhaco\nlume\nso\nst\nte\nunki\n' >local/dictionary
printf '# Counts the statuses of a web log.\n{ n[$9]++ }\nEND { for (s in n) print s, n[s] | "sort"; close("sort") }\n' >local/status.awk
printf '# Takes the addresses away.\ns/^[0-9.]* - //\n/POST/d\n' >local/anonymous.sed
printf 'select(.level == "error") | [.id, .host, .ms] | @csv\n' >local/errors.jq
printf 'greet() { echo "hello, ${1:-nobody}"; }\ncount_lines() { wc -l <"$1"; }\nlib_loaded=yes\n' >local/lib/functions.sh
printf 'export GIT_AUTHOR_NAME=Anna GIT_AUTHOR_EMAIL=anna@example.org GIT_COMMITTER_NAME=Anna GIT_COMMITTER_EMAIL=anna@example.org\nexport GIT_AUTHOR_DATE="2025-03-01T12:00:00Z" GIT_COMMITTER_DATE="2025-03-01T12:00:00Z"\nexport GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat\ngit_new() { git -c init.defaultBranch=main init -q "$1"; }\n# The index holds times and inodes.\ngit_end() { rm "${1:-.}/.git/index"; }\n' >local/lib/git.sh
printf 'local note\n' >local/note

# Links.
ln -s ../words alpha/links/inside
ln -s nowhere alpha/links/dangling
ln -s ../../beta/words alpha/links/to-beta
ln -s ../../local/patterns alpha/links/to-local
ln -s ../tree alpha/links/folder
ln -s loop alpha/links/loop
ln -s ../../alpha/numbers beta/links/to-alpha
ln -s ../log beta/links/folder
ln -s ../alpha/data.csv local/to-alpha

# Packed ones. -n: no names and times in them.
gzip -nc alpha/log/access-1.log >alpha/log/access-0.log.gz
gzip -nc beta/words >beta/words.gz
xz -0c alpha/colours >alpha/colours.xz
xz -0c beta/numbers >beta/numbers.xz
printf 'this is not packed\n' >alpha/not-packed.gz
head -c 3000 alpha/log/access-0.log.gz >alpha/cut-short.gz

# Modes, and times: all the same, but for a few.
chmod 600 alpha/users
chmod 444 alpha/versions beta/note
chmod 640 alpha/sizes
find alpha beta local -exec touch -h -d '2025-03-01 12:00:00' {} +
touch -d '2025-01-01 00:00:00' alpha/log/access-1.log alpha/words
touch -d '2025-02-02 02:02:02' alpha/log/access-2.log
touch -d '2024-12-24 18:00:00' beta/log/access-7.log alpha/numbers
touch -d '2025-03-09 09:09:09' beta/numbers alpha/log/access-6.log
