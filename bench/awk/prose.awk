# Counts the words of running text.
{ for (i = 1; i <= NF; i++) n[$i]++ }
END { for (word in n) { different++; squares += n[word] * n[word] } printf "%d %.0f\n", different, squares }
