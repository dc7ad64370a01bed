package broker

import (
	"context"
	"time"
)

// dirReports tells the cluster where this node's replicas are and which of its log directories work, when that changes.
type dirReports struct {
	due  chan struct{} // holds one token while there may be something to tell
	quit chan struct{}
	done chan struct{}
}

// reportAgainAfter is how long a report waits that could not be told, as on a full disk.
const reportAgainAfter = 5 * time.Second

func newDirReports() dirReports {
	return dirReports{due: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// poke says that there is something to tell. It never blocks.
func (r *dirReports) poke() {
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// start begins to tell, when the quorum takes commands.
func (r *dirReports) start(n *Node) {
	go func() {
		defer close(r.done)
		for {
			select {
			case <-r.quit:
				return
			case <-r.due:
			}
			if n.reportDirs() {
				continue
			}
			select {
			case <-r.quit:
				return
			case <-time.After(reportAgainAfter):
				r.poke()
			}
		}
	}()
}

// reportDirs tells what there is to tell, and whether that went well.
func (n *Node) reportDirs() bool {
	report, ok := n.replicas.TakeDirReport()
	if !ok {
		return true
	}
	err := n.quorum.ReportDirs(context.Background(), report)
	if err != nil {
		n.log.Warn("the state of the log directories was not noted in the metadata log", "error", err)
		n.replicas.ReturnDirReport(report)
	}
	return err == nil
}

func (r *dirReports) close() {
	close(r.quit)
	<-r.done
}
