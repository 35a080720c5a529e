# Writes a first input for each target that reads text, from the cases of the language corpus:
#
#     find tests/awk -name '*.case' -exec env LC_ALL=C awk -v to=FOLDER -f fuzz/seeds.awk {} +
#
# FOLDER/program_text gets the programs, FOLDER/input_data what they read, behind two bytes that choose the fixed program and
# the charset, FOLDER/files a text or two for each format. The others are fed on choices, which nobody can write. A case has each section once; "escaped" ones are left out, since their text is not yet the input.

FNR == 1 { finish(); number++ }

/^--- / {
    finish()
    if ($NF == "escaped") section = ""
    else if ($2 == "program") section = "program_text"
    else if ($2 == "stdin" || $2 == "file") section = "input_data"
    next
}

section != "" { text = text $0 "\n" }

END {
    finish()
    # Eight bytes are a moment.
    file_seed(1, "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);")
    file_seed(1, "nplurals=2; plural=n != 1;")
    file_seed(2, "90 9 1800000000")
    file_seed(2, "100000 1e300 -1")
    zeros = sprintf("%c%c%c%c%c%c%c", 0, 0, 0, 0, 0, 0, 0)
    one = sprintf("%c", 1) zeros
    file_seed(3, one one "kN" zeros "?")
    file_seed(3, one one "kS" one "s")
    file_seed(3, one one "kA" one one "kB" substr(one, 1, 1))
    file_seed(4, "12345678CET-1CEST,M3.5.0,M10.5.0/3")
    file_seed(4, "12345678EST5EDT")
    file_seed(4, "12345678<+1030>-10:30<+11>-11,J60/25,300/-3")
    file_seed(5, "12345678%Y-%m-%d %H:%M:%S %a %b %z %p %j %U %s %G %V %u %-d %_H %^a %#Z %10Y %Ey %Od")
    file_seed(5, "12345678%c%x%X%D%F%T%R%r%n%t%%%C%e%h%I%k%l%P%y%W%w%+")
}

function file_seed(format, text,    file) {
    file = to "/files/" ++formats
    printf "%c%s", format, text > file
    close(file)
}

function finish(    file) {
    if (section != "" && text != "") {
        file = to "/" section "/" number "-" ++part
        # 40 is as many as there are programs, or a few more.
        if (section == "input_data") printf "%c%c", 1 + chosen++ % 40, 1 + part % 2 > file
        printf "%s", text > file
        close(file)
    }
    section = text = ""
}
