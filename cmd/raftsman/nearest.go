package main

// nearest returns the name that was probably meant, or "" if none is near.
func nearest(typed string, names []string) string {
	best, bestDistance := "", max(2, len(typed)/4)+1
	for _, name := range names {
		if d := editDistance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance is how many letters have to be added, taken away or replaced (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
