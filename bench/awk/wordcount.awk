# Counts words, one a line; one answer that all words have a part in.
{ n[$1]++ }
END { for (word in n) { different++; squares += n[word] * n[word] } printf "%d %.0f\n", different, squares }
