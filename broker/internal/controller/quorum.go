package controller

import "github.com/tidemark/tidemark/core/kafka"

// Quorum is what DescribeQuorum tells of the metadata quorum.
type Quorum struct {
	Leader        kafka.BrokerID
	Epoch         int32
	HighWatermark kafka.Offset
	Voters        []Voter
}

// Voter is one of the controllers.
type Voter struct {
	ID           kafka.BrokerID
	LogEndOffset kafka.Offset
}

// Quorum describes the quorum as the newest image shows it: one voter, which leads.
func (c *Controller) Quorum() Quorum {
	img := c.Image()
	end := kafka.Offset(img.Offset) + 1 // what is applied is committed, and with one voter what is durable is applied
	return Quorum{Leader: img.ControllerID, Epoch: img.Epoch, HighWatermark: end,
		Voters: []Voter{{ID: kafka.BrokerID(c.o.Config.NodeID), LogEndOffset: end}}}
}
