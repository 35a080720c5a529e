# Strings that grow at their end, and small ones made of parts.
BEGIN {
    for (i = 0; i < n; i++) {
        text = ""
        for (j = 0; j < 1000; j++) text = text "item," j
        size += length(text)
    }
    print size
}
