// Enqueues with pgx: go run . TOPIC
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

type order struct {
	Total int `json:"total"`
}

func enqueue(ctx context.Context, tx pgx.Tx, call string, arguments ...any) error {
	var id string
	if err := tx.QueryRow(ctx, call, arguments...).Scan(&id); err != nil {
		return err
	}
	fmt.Println(id)
	return nil
}

func main() {
	ctx := context.Background()
	topic := os.Args[1]
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Its parameters have one type each: pgx encodes what it is given.
		err := enqueue(ctx, tx, "SELECT outbox.enqueue_json($1, $2, $3, $4, topic => $5)",
			"order", "42", "created", order{Total: 10}, topic)
		if err != nil {
			return err
		}
		err = enqueue(ctx, tx, "SELECT outbox.enqueue_bytes($1, $2, $3, $4, topic => $5)",
			"order", "A-1", "scanned", []byte{0, 255}, topic)
		if err != nil {
			return err
		}
		// The overloads want to be told the types.
		err = enqueue(ctx, tx, "SELECT outbox.enqueue($1, $2::bigint, $3, $4::jsonb, topic => $5)",
			"order", 43, "created", map[string]any{"total": 10}, topic)
		if err != nil {
			return err
		}
		return enqueue(ctx, tx, "SELECT outbox.enqueue($1, $2::bigint, $3, $4::json, topic => $5)",
			"order", 42, "deleted", nil, topic)
	})
	if err != nil {
		log.Fatal(err)
	}

	refused := errors.New("the order is refused")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT outbox.enqueue_json($1, $2, $3, $4, topic => $5)",
			"order", "42", "rolled back", order{}, topic)
		return errors.Join(refused, err)
	})
	if !errors.Is(err, refused) || err.Error() != refused.Error() {
		log.Fatal(err)
	}
}
