#!/usr/bin/env bash
# Runs Kaon's tests for GPUs, then its benchmarks and, where PyTorch is, its figures beside them, from the files beside
# this script, and writes results.json, tests.log and bench.log into a folder. Ends with 0 when all tests have passed, 1
# when not, 3 without a GPU.
set -uo pipefail

usage="usage: run.sh [--tests] [--bench] [--sanitize] [--small] [folder]
folder: for the results; \$OUT or ./results       --tests, --bench: only these
--sanitize: some tests under compute-sanitizer     --small: benchmarks in sizes for an emulated GPU"
tests="" bench="" sanitize="" small=() out=""
for argument in "$@"; do
  case $argument in
    --tests) tests=yes ;;
    --bench) bench=yes ;;
    --sanitize) sanitize=yes ;;
    --small) small=(--small) ;;
    --help) echo "$usage"; exit 0 ;;
    -*) echo "run.sh: unknown argument $argument; $usage" >&2; exit 2 ;;
    *) out=$argument ;;
  esac
done
[[ -n $tests$bench$sanitize ]] || tests=yes bench=yes
limit=${KAON_TEST_SECONDS:-300}  # for each program
here=$(cd "$(dirname "$0")" && pwd)
out=${out:-${OUT:-results}}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -xzf "$here/files.tar.gz" -C "$root" || exit 2
cd "$root" || exit 2

text() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/[[:cntrl:]]/ /g' <<<"$1"; }  # as JSON has it between its quotes

# CUDA's libraries: in the toolkit or among Python's packages, or where the system looks anyhow.
shopt -s nullglob
packages=(/usr/lib/python3*/{dist,site}-packages /usr/local/lib/python3*/{dist,site}-packages
          /opt/*/lib/python3*/site-packages /opt/*/{,.}venv/lib/python3*/site-packages
          "${HOME:-/root}"/.local/lib/python3*/site-packages)
if command -v python3 >/dev/null; then
  mapfile -t -O "${#packages[@]}" packages < <(python3 -c 'import sys; print("\n".join(p for p in sys.path if p))' 2>/dev/null)
fi
folders=(/usr/local/cuda/{lib64,lib,targets/x86_64-linux/lib} /usr/local/cuda-1[3-9]*/{lib64,targets/x86_64-linux/lib})
for p in "${packages[@]}"; do folders+=("$p"/nvidia/cu13/lib "$p"/nvidia/*/lib); done
path=$root/lib
libraries=""
for library in libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13; do
  found=""
  for folder in "${folders[@]}"; do
    if [[ -e $folder/$library ]]; then
      found=$(readlink -f "$folder/$library")
      [[ :$path: == *:$folder:* ]] || path+=:$folder
      break
    fi
  done
  [[ -n $found ]] || found=$( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n "s/.*$library.* => //p" | head -n 1)
  echo "$library: ${found:-not found}"
  version=$(sed -n 's/.*\.so\.\([0-9.]*\)$/\1/p' <<<"$found")
  name=${library%%.so*} name=${name#lib} name=${name%Lt}
  for info in "${found%/nvidia/*}"/nvidia_"${name/nvrtc/cuda_nvrtc}"*.dist-info; do
    version=$(sed 's/.*-\(.*\)\.dist-info/\1/' <<<"$info")
  done
  libraries+="${libraries:+, }\"$library\": {\"file\": \"$(text "$found")\", \"version\": \"$version\"}"
done
system_path=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

smi=$(PATH=$PATH:/usr/local/nvidia/bin nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
echo "nvidia-smi: ${smi:-not there}"
driver=${smi##*, }

results=() benchmarks=() gpu="" reason="" failed=""
write_results() {
  local IFS=,
  {
    echo "{\"gpu\": \"$(text "$gpu")\", \"nvidia_smi\": \"$(text "$smi")\", \"driver\": \"$(text "$driver")\","
    echo " \"system\": \"$(text "$(getconf GNU_LIBC_VERSION)")\", \"commit\": \"$(cat commit)\", \"no_gpu\": \"$(text "$reason")\","
    echo " \"libraries\": {$libraries},"
    echo " \"passed\": $([[ -z $failed ]] && echo true || echo false),"
    printf ' "tests": [%s\n ],\n' "${results[*]/#/$'\n'  }"
    printf ' "benchmarks": [%s\n ]}\n' "${benchmarks[*]/#/$'\n'  }"
  } >"$out/results.json"
}
finish() {
  write_results
  echo "results: $out/results.json"
  exit "$1"
}

# Which GPU Kaon has.
probe=$(timeout 120 bin/bench_gpu --small launch 2>"$root/stderr" | tail -n 1)
gpu=$(sed -n 's/.*"gpu": "\([^"]*\)".*/\1/p' <<<"$probe")
if [[ -z $gpu ]]; then
  reason=$(tail -n 1 "$root/stderr")
  reason=${reason#bench_gpu: no GPU: }
  failed=yes
  echo "no GPU: $reason" >&2
  finish 3
fi
echo "GPU: $gpu"
: >"$out/tests.log"

# run(name, command...): the command writes Catch2's XML; counts, and the names of what failed or was cut off.
run() {
  local name=$1 start=$SECONDS status log=$root/log
  shift
  timeout -k 10 "$limit" "$@" -r xml -d yes >"$log" 2>&1
  status=$?
  { echo "===== $name: $*"; cat "$log"; } >>"$out/tests.log"
  local counts
  counts=$(awk '
    function plain(s) {
      gsub(/&quot;/, "\"", s); gsub(/&apos;/, "\047", s); gsub(/&lt;/, "<", s); gsub(/&gt;/, ">", s); gsub(/&amp;/, "\\&", s)
      gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s)
      return s
    }
    function bad() { failed++; names = names (names == "" ? "" : ", ") "\"" plain(current) "\""; current = "" }
    /<TestCase name="/ { cases++; match($0, /name="[^"]*"/); current = substr($0, RSTART + 6, RLENGTH - 7) }
    /skipped: / { skipped++ }
    /<OverallResult success="false"/ { bad() }
    /<OverallResult success="true"/ { current = "" }
    END { if (current != "") bad(); printf "%d %d %d %s\n", cases, failed, skipped, names }' "$log")
  local cases bad skipped names
  read -r cases bad skipped names <<<"$counts"
  # 4: a case was skipped
  if ((bad > 0 || cases == 0 || (status != 0 && status != 4))); then failed=yes; fi
  results+=("{\"name\": \"$name\", \"cases\": $cases, \"failed\": $bad, \"skipped\": $skipped, \"status\": $status, \"seconds\": $((SECONDS - start)), \"failed_cases\": [$names]}")
  printf '%-36s %5d cases %5d failed %5d skipped %5d s   status %d\n' "$name" "$cases" "$bad" "$skipped" \
    $((SECONDS - start)) "$status"
  [[ -z $names ]] || echo "    $names"
  write_results
}

if [[ -n $tests ]]; then
  for program in bin/kaon_*_tests; do run "${program#bin/}" "$program" "[cuda]~[fault]"; done
  for program in bin/kaon_*_tests; do  # a GPU that has failed stays so as long as its process
    [[ -z $("$program" --list-test-names-only "[cuda][fault]") ]] || run "${program#bin/}_fault" "$program" "[cuda][fault]"
  done
fi
if [[ -n $sanitize ]]; then
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
  if [[ -z $sanitizer ]]; then
    echo "compute-sanitizer is not installed: its runs are left out"
  else
    sanitized=("$sanitizer" --error-exitcode 9 --report-api-errors no --tool)
    run gluon_memcheck "${sanitized[@]}" memcheck bin/kaon_gluon_tests "[cuda]~[fault]gpu*"
    run ops_memcheck "${sanitized[@]}" memcheck bin/kaon_ops_tests "[cuda]~[fault]gpu*"
    run ops_racecheck "${sanitized[@]}" racecheck bin/kaon_ops_tests "[cuda]gpu reduce*,[cuda]gpu softmax*,[cuda]gpu norm*"
  fi
fi
if [[ -n $bench ]]; then
  timeout -k 10 "$limit" bin/bench_gpu "${small[@]}" >"$root/lines" 2>"$out/bench.log"
  status=$?
  ((status == 0)) || failed=yes
  cat "$out/bench.log" >&2
  if ((${#small[@]} == 0)) &&  # PyTorch beside Kaon, with its own libraries
    LD_LIBRARY_PATH=$system_path python3 -c 'import torch; torch.cuda.init()' >/dev/null 2>&1; then
    LD_LIBRARY_PATH=$system_path timeout -k 10 "$limit" python3 bin/peers_gpu >>"$root/lines" 2>>"$out/bench.log" ||
      echo "bench/peers_gpu failed: bench.log" >&2
  fi
  mapfile -t benchmarks < <(grep '^{"name"' "$root/lines")
  echo
  sed -n 's/^{"name": "\([^"]*\)", "median": \([^,]*\),.*"unit": "\([^"]*\)".*/\1 \2 \3 &/p' "$root/lines" |
    while read -r name median unit line; do
      beside=$(sed -n 's/.*"baseline": "\([^"]*\)", "ratio": \([^,}]*\).*/\2 of \1/p' <<<"$line")
      printf '%-56s %10s %-9s %s\n' "$name" "$median" "$unit" "$beside"
    done
  ((status == 0)) || echo "bench_gpu ended with $status"
fi
echo
done="all tests passed"
((${#results[@]} > 0)) || done="no tests were run"
[[ -z $failed ]] && echo "$done on $gpu" || echo "FAILED on $gpu"
finish "$([[ -z $failed ]] && echo 0 || echo 1)"
