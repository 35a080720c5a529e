# Sums the fourth column of comma-separated values with quotes, for an AWK that does not know them itself.
function split_csv(line, fields,    count, part) {
    while (1) {
        if (substr(line, 1, 1) == "\"") {
            match(line, /^"([^"]|"")*"/)
            part = substr(line, 2, RLENGTH - 2)
            gsub(/""/, "\"", part)
        } else {
            match(line, /^[^,]*/)
            part = substr(line, 1, RLENGTH)
        }
        fields[++count] = part
        if (RLENGTH == length(line)) return count
        line = substr(line, RLENGTH + 2)
    }
}
{ split_csv($0, field); sum += field[4]; remarks += length(field[3]) }
END { printf "%.0f %d\n", sum, remarks }
