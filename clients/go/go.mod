module github.com/quorlock/quorlock/clients/go

go 1.23
