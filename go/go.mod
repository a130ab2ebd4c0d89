module clearhead

go 1.19
