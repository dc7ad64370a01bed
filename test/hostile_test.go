package test

// expectCalm measures the broker's memory now and when the function that it returns is called: in between it may have grown by
// so many bytes at most, and afterwards the broker serves.
func (p *process) expectCalm(limit int64) func() {
	p.t.Helper()
	before := p.memory("VmRSS")
	p.resetPeak()
	return func() {
		p.t.Helper()
		peak, after := p.memory("VmHWM"), p.memory("VmRSS")
		p.t.Logf("resident: %.1f MB before, at most %.1f, %.1f after", mb(before), mb(peak), mb(after))
		if peak-before > limit {
			p.t.Errorf("memory grew by %.1f MB, want at most %.1f", mb(peak-before), mb(limit))
		}
		p.checkAlive()
	}
}

// calmBytes is how much memory may come and go while a broker is attacked.
const calmBytes = 32 << 20

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
