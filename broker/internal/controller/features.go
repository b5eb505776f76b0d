package controller

import (
	"context"
	"fmt"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// Feature is a feature of the cluster and the levels of it that this program supports.
type Feature struct {
	Name     string
	Min, Max int16
}

// metadataVersion is the finalised level of metadata.version in a new cluster: Kafka 4.4's, whose APIs are served.
const metadataVersion = 33

// Features are the features that this program supports. One that is not built is not among them: clients choose
// protocols by it. 7 is 3.3-IV3, the first metadata.version that Kafka 4 accepts.
func Features() []Feature {
	return []Feature{{Name: "metadata.version", Min: 7, Max: metadataVersion}}
}

// UpgradeType says in which direction a level may go, by UpdateFeatures' numbers.
type UpgradeType int8

// Directions of a level.
const (
	Upgrade         UpgradeType = 1
	SafeDowngrade   UpgradeType = 2
	UnsafeDowngrade UpgradeType = 3
)

// FeatureUpdate asks for a feature's level; 0 takes the feature away.
type FeatureUpdate struct {
	Name  string
	Level int16
	Type  UpgradeType
}

// UpdateFeatures finalises levels, all or none. failed names the feature that was refused, "" when the reason is no
// feature's.
func (c *Controller) UpdateFeatures(ctx context.Context, updates []FeatureUpdate, validateOnly bool) (failed string, code kafka.ErrorCode, text string) {
	var out struct {
		failed string
		code   kafka.ErrorCode
		text   string
	}
	_, err := c.submit(ctx, func(d *decision) {
		if validateOnly {
			d = d.scratch()
		}
		out.failed, out.code, out.text = decideFeatures(d, updates)
	})
	if err != nil { // the closure may be running: out is not to be read
		return "", codeOf(err), err.Error()
	}
	return out.failed, out.code, out.text
}

// decideFeatures decides on a whole UpdateFeatures request.
func decideFeatures(d *decision, updates []FeatureUpdate) (failed string, code kafka.ErrorCode, text string) {
	var group []metadata.Record
	seen := map[string]bool{}
	for _, u := range updates {
		if seen[u.Name] {
			return u.Name, kafka.InvalidRequest, "The feature is named twice."
		}
		seen[u.Name] = true
		level := d.image.Features()[u.Name]
		if code, text := u.judge(level); code != kafka.None {
			return u.Name, code, text
		}
		if u.Level != level {
			group = append(group, &metadata.FeatureRecord{Name: u.Name, Level: u.Level})
		}
	}
	if len(group) > 0 {
		d.add(group...)
	}
	return "", kafka.None, ""
}

// judge says whether a level may follow the one that is finalised.
func (u *FeatureUpdate) judge(level int16) (kafka.ErrorCode, string) {
	var f *Feature
	for _, known := range Features() {
		if known.Name == u.Name {
			f = &known
		}
	}
	switch {
	case u.Type < Upgrade || u.Type > UnsafeDowngrade:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("The controller does not support the upgrade type %d.", u.Type)
	case f == nil:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. The controller does not support this feature.", u.Level, u.Name)
	case u.Level < f.Min || u.Level > f.Max:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. The controller only supports versions %d-%d.", u.Level, u.Name, f.Min, f.Max)
	case u.Level < level && u.Type == Upgrade:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. Can't downgrade the version of this feature "+
			"without setting the upgrade type to either safe or unsafe downgrade.", u.Level, u.Name)
	case u.Level < level:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. Downgrades are not supported: the metadata log "+
			"may hold records that the lower level does not know.", u.Level, u.Name)
	case u.Level > level && u.Type != Upgrade:
		return kafka.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. Can't downgrade to a newer version.", u.Level, u.Name)
	}
	return kafka.None, ""
}
