#!/usr/bin/env bash
# A thumbnail of each image, beside them.
cd "$1/host1/images" || exit
mkdir -p thumbs
mogrify -format gif -path thumbs -thumbnail 100x100 ./*.jpg
ls thumbs | wc -l
