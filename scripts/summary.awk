# Reads `go test -v` and prints one line for each test that passed, with its time, its number of parts and the last thing that it
# said itself; of a test that failed, and of what is not over when the output ends, everything. It fails if a package had no test
# to run.
function top(name) { sub(/\/.*/, "", name); return name }
function forget(test) { delete kept[test]; delete said[test]; delete parts[test] }

/^=== (RUN|CONT|NAME|PAUSE) / {
  current = top($3)
  own = $3 == current
  failing = 0
  if ($2 == "RUN" && !own) parts[current]++
  kept[current] = kept[current] $0 "\n"
  next
}
/^--- (PASS|FAIL|SKIP): / {
  test = $3
  if ($2 == "PASS:") {
    print $0 (parts[test] ? ", " parts[test] " parts" : "") (said[test] ? ": " said[test] : "")
  } else {
    printf "%s%s\n", kept[test], $0
    failing = 1 # what follows, of its parts, belongs to it
    forget(test)
    fflush()
    next
  }
  failing = 0
  forget(test)
  fflush()
  next
}
/^    +--- / { if (failing) print; next }
/^(PASS|FAIL|ok |\?|exit status|panic:|coverage:)/ {
  if (/^panic:/) dying = 1
  if (/\[no tests to run\]/) nothing = 1
  if (!/^PASS$/) print
  fflush()
  next
}
dying || current == "" || failing && /^ / { print; next }
{
  kept[current] = kept[current] $0 "\n"
  if (own && /^    [a-z_0-9]+\.go:[0-9]+: /) {
    said[current] = $0
    sub(/^ +[a-z_0-9]+\.go:[0-9]+: /, "", said[current])
  }
}
END {
  for (test in kept) if (kept[test] != "") printf "not over: %s\n%s", test, kept[test]
  exit nothing
}
