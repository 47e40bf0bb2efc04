package device_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/epic-inc/epic/driver/device"
)

// Places as docs/registers.md has them.
func TestField(t *testing.T) {
	assert.Equal(t, uint32(0xabc), device.TableCmdIndex.Get(0xfabc0031))
	assert.Equal(t, uint32(0x3), device.TableCmdTableID.Get(0xfabc0031))
	assert.Equal(t, uint32(0x0abc0000), device.TableCmdIndex.Put(0xabc))
	assert.PanicsWithValue(t, "device: TABLE_CMD.index: got 4096, want 0..4095", func() { device.TableCmdIndex.Put(4096) })
	assert.Equal(t, uint32(1)<<31, device.ErrorFirstValid.Put(1))
	all := device.Field{Name: "all", Shift: 0, Width: 32}
	assert.Equal(t, uint32(0xffffffff), all.Put(0xffffffff))
	assert.Equal(t, uint32(0xffffffff), all.Get(0xffffffff))
}
