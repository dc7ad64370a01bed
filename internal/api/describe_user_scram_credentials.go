package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// describeUserScramCredentials tells which users have passwords (key 50): all that have one, or those that are named. The metadata
// log of a Kafka may hold some; setting them comes with logins.
func (a *API) describeUserScramCredentials(c call) {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorMessage = new("")
	rows := map[string]*kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	for _, credential := range a.Quorum.Image().Credentials() {
		row := rows[credential.User]
		if row == nil {
			row = new(kmsg.NewDescribeUserSCRAMCredentialsResponseResult())
			row.User, row.ErrorMessage = credential.User, new("")
			rows[credential.User] = row
		}
		row.CredentialInfos = append(row.CredentialInfos, kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{
			Mechanism: credential.Mechanism, Iterations: credential.Iterations,
		})
	}
	asked := map[string]int{}
	for _, u := range req.Users {
		asked[u.Name]++
		if asked[u.Name] > 1 {
			refused := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			refused.User, refused.ErrorCode, refused.ErrorMessage = u.Name, int16(kafka.DuplicateResource), new("the user is named more than once")
			rows[u.Name] = &refused
		} else if rows[u.Name] == nil {
			unknown := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			unknown.User, unknown.ErrorCode, unknown.ErrorMessage = u.Name, int16(kafka.ResourceNotFound), new("the user has no credential")
			rows[u.Name] = &unknown
		}
	}
	for _, name := range sortedKeys(rows) {
		if len(asked) == 0 || asked[name] > 0 {
			resp.Results = append(resp.Results, *rows[name])
		}
	}
	c.answer(resp)
}
