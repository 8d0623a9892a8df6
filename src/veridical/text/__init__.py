"""What Veridical knows about language: words, sentences, values, names, signs, citations, markup."""
