package uart

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/device/uart/frame"
)

// The flash of every board has these sizes; the protocol says them in its own words.
func TestSizes(t *testing.T) {
	assert.EqualValues(t, device.SectorLog2, frame.SectorLog2)
	assert.EqualValues(t, device.BlockLog2, frame.BlockLog2)
	assert.EqualValues(t, device.PageBytes, frame.PageBytes)
}
