# Letters one by one.
{
    text = tolower($0)
    for (i = length(text); i > 0; i--) n[substr(text, i, 1)]++
}
END { for (letter in n) { different++; squares += n[letter] * n[letter] } printf "%d %.0f\n", different, squares }
