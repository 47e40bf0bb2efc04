module github.com/epic-inc/epic

go 1.26
