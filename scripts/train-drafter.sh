#!/bin/sh
# Makes the shipped drafter of the default model again, from nothing: answers of the model, training, more answers,
# more training, and the table of its card. Resumable: call it again after an interruption. Takes hours.
# Usage: scripts/train-drafter.sh FOLDER [ANSWER_TOKENS]    (PROMPTS, TRAIN_DATA: folders of evaluation and training data)
set -eu
folder=${1:?usage: scripts/train-drafter.sh FOLDER [ANSWER_TOKENS]}
tokens=${2:-1150000}
root=$(cd "$(dirname "$0")/.." && pwd)
data=${TRAIN_DATA:-$root/../shared/data}
prompts=${PROMPTS:-$root/../shared/data/prompts}
dspark=$root/build/dspark

mkdir -p "$folder"
# generate ANSWER_TOKENS, train RECIPE
generate() {
  "$dspark" data generate "$folder/answers.jsonl" --sources "$root/training/sources.json" --data-folder "$data" \
    --slots 96 -n 512 --answer-tokens "$1"
}
train() {
  "$dspark" train "$folder/$1" --data "$folder/answers.jsonl" --recipe "$root/training/$1.json" --kv-memory 1GiB \
    --feature-cache 12GiB
}
generate $((tokens / 2))
train lookup
generate "$tokens"
[ -e "$folder/lookup-2" ] || { mkdir "$folder/lookup-2" && cp "$folder/lookup/features.bin" "$folder/lookup-2/"; }
train lookup-2
for temperature in 0 1; do
  set --
  for name in gsm8k humaneval mbpp json mt-bench copy-edit; do set -- "$@" --prompts "$prompts/$name.jsonl"; done
  "$dspark" eval --drafter "$folder/lookup-2/drafter.gguf" --temp "$temperature" --limit 40 \
    --plot "$folder/reliability-t$temperature.svg" "$@"
done
