# forin-sort.awk for an AWK that has to ask sort(1).
{ n[$1]++ }
END { for (word in n) print word, n[word] | "sort" }
