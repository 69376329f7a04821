# Packs and unpacks files of several kinds and compares; damaged ones must be refused.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

: > "$folder/empty"
printf a > "$folder/one"
cat src/*.c src/*.h Makefile > "$folder/text"
yes abcabcabd | head -c 100000 > "$folder/repeated"
awk 'BEGIN { s = 1; for (i = 0; i < 20000; i++) { s = (s * 16807) % 2147483647; printf "%c", s % 251 } }' > "$folder/noise"

for name in empty one text repeated noise; do
    "$PACK" pack < "$folder/$name" > "$folder/packed"
    "$PACK" unpack < "$folder/packed" | cmp - "$folder/$name"
    echo "$name: $(wc -c < "$folder/$name") -> $(wc -c < "$folder/packed") bytes"
done

"$PACK" pack < "$folder/text" | tr 'e' 'f' > "$folder/damaged"
if "$PACK" unpack < "$folder/damaged" > /dev/null 2>&1; then
    echo "a damaged file was accepted" >&2
    exit 1
fi
echo "check passed"
