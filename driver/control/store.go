package control

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/epic-inc/epic/golden/psn"
)

// Store is the state on disk: jobs, and the last PSN of every direction between queue pairs that was used. One process
// has it open at a time.
type Store struct {
	db       *bolt.DB
	instance string
	// update is db.Update; a test ends the process before it, or after.
	update func(func(*bolt.Tx) error) error
}

// The buckets. Values are JSON, but for the generation.
var (
	bucketMeta = []byte("meta")
	bucketJobs = []byte("jobs") // by id
	bucketPSNs = []byte("psns") // by direction

	keyVersion    = []byte("version")
	keyInstance   = []byte("instance")
	keyGeneration = []byte("generation")
)

// storeVersion is the version of what is in the buckets.
const storeVersion = "1"

// lockWait is how long OpenStore waits for another process to close the file.
const lockWait = 3 * time.Second

// used is the last psn of a direction, and when it was written down.
type used struct {
	Direction direction `json:"direction"`
	Last      psn.PSN   `json:"last"`
	At        time.Time `json:"at"`
}

// OpenStore opens the file, or makes it.
func OpenStore(path string) (*Store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait})
	if err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return nil, fmt.Errorf("state %s: another process has it open, want one control plane at a time", path)
		}
		return nil, fmt.Errorf("state %s: %w", path, err)
	}
	s := &Store{db: db, update: db.Update}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("state %s: %w", path, err), db.Close())
	}
	return s, nil
}

func (s *Store) prepare() error {
	return s.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		for _, b := range [][]byte{bucketJobs, bucketPSNs} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		if v := meta.Get(keyVersion); v == nil {
			var id [4]byte
			if _, err := rand.Read(id[:]); err != nil {
				return err
			}
			if err := meta.Put(keyInstance, []byte(hex.EncodeToString(id[:]))); err != nil {
				return err
			}
			if err := meta.Put(keyVersion, []byte(storeVersion)); err != nil {
				return err
			}
		} else if string(v) != storeVersion {
			return fmt.Errorf("got version %q, want %q: written by another version of this program", v, storeVersion)
		}
		s.instance = string(meta.Get(keyInstance))
		return nil
	})
}

// Close the file.
func (s *Store) Close() error { return s.db.Close() }

// load reads all.
func (s *Store) load() (jobs []*job, last map[direction]used, err error) {
	last = map[direction]used{}
	err = s.db.View(func(tx *bolt.Tx) error {
		if err := tx.Bucket(bucketJobs).ForEach(func(k, v []byte) error {
			j := &job{changed: make(chan struct{})}
			if err := json.Unmarshal(v, j); err != nil {
				return fmt.Errorf("job %s: %w", k, err)
			}
			for _, sub := range j.Subgroups {
				if err := sub.parse(); err != nil {
					return err
				}
			}
			jobs = append(jobs, j)
			return nil
		}); err != nil {
			return err
		}
		return tx.Bucket(bucketPSNs).ForEach(func(k, v []byte) error {
			var u used
			if err := json.Unmarshal(v, &u); err != nil {
				return fmt.Errorf("PSN of %s: %w", k, err)
			}
			last[u.Direction] = u
			return nil
		})
	})
	return jobs, last, err
}

// change is what one transaction writes.
type change struct {
	put    *job
	remove []string    // ids of jobs
	used   []used      // last PSNs
	forget []direction // whose past is long over
}

func (s *Store) write(c change) error {
	return s.update(func(tx *bolt.Tx) error {
		jobs, psns := tx.Bucket(bucketJobs), tx.Bucket(bucketPSNs)
		if c.put != nil {
			text, err := json.Marshal(c.put)
			if err != nil {
				return err
			}
			if err := jobs.Put([]byte(c.put.ID), text); err != nil {
				return err
			}
		}
		for _, id := range c.remove {
			if err := jobs.Delete([]byte(id)); err != nil {
				return err
			}
		}
		for _, u := range c.used {
			text, err := json.Marshal(u)
			if err != nil {
				return err
			}
			if err := psns.Put([]byte(u.Direction.String()), text); err != nil {
				return err
			}
		}
		for _, d := range c.forget {
			if err := psns.Delete([]byte(d.String())); err != nil {
				return err
			}
		}
		return nil
	})
}

// generation counts the incarnations of all jobs; no two get the same.
func (s *Store) generation() (g uint64, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if b := meta.Get(keyGeneration); len(b) == 8 {
			g = binary.BigEndian.Uint64(b)
		}
		g++
		return meta.Put(keyGeneration, binary.BigEndian.AppendUint64(nil, g))
	})
	return g, err
}
