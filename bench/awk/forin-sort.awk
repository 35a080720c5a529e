# Counts, then tells in the order of the keys, for an AWK that can walk an array in order.
{ n[$1]++ }
END { PROCINFO["sorted_in"] = "@ind_str_asc"; for (word in n) print word, n[word] }
