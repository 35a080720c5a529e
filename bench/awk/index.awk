# Every place of a fixed text in lines.
{
    rest = $0
    while (at = index(rest, "ing")) { count++; places += at; rest = substr(rest, at + 3) }
}
END { print count, places }
